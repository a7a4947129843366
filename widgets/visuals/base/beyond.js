/** Frames of wide tables: whether columns of them are beyond their edges, which styles then shade. */

const seen = new WeakSet();
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) markBeyond(target);
});

/** Says of a frame whether columns of it are beyond its right edge, from now on also when it is scrolled or resized. */
export function markBeyond(frame) {
  frame.toggleAttribute("data-beyond", frame.scrollWidth - frame.scrollLeft - frame.clientWidth > 1);
  if (seen.has(frame)) return;
  seen.add(frame);
  resized.observe(frame);
  frame.addEventListener("scroll", () => markBeyond(frame), { passive: true });
}
