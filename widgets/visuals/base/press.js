/**
 * Holds redraws while a control is pressed: nothing moves between press and release, which would lose the click. A key that
 * is held presses a control once.
 */

const CONTROLS = "a[href], button, summary, label, [type=checkbox], [type=radio]";
const FIELDS = "input, select";
const held = new Map();
let isWatching = false;
let isPressed = false;
let ending = null;

/**
 * Calls `redraw`, which changes the content of `root`. While a pointer is pressed on a control of the page, it is called once
 * the pointer is released and the click has been heard; of several redraws of one root only the last.
 * @param nodes `isDrawn(node)` returns whether a node is of ours, `hearsClicks(node)` whether it is a control by its listeners
 */
export function unlessPressed(root, redraw, nodes) {
  if (!isWatching) watch(nodes);
  held.delete(root);
  if (isPressed && root.isConnected) held.set(root, redraw);
  else redraw();
}

function watch({ isDrawn, hearsClicks }) {
  isWatching = true;
  const isControl = (node) => node.matches?.(CONTROLS) || hearsClicks(node);
  window.addEventListener(
    "pointerdown",
    (event) => isUsual(event) && event.composedPath().some(isControl) && press(),
    true,
  );
  window.addEventListener("pointerup", release, true);
  window.addEventListener("pointercancel", release, true);
  // What hears the click draws at once: it may give the focus to what it opens.
  window.addEventListener("click", () => (isPressed = false), true);
  // A release over another window or a dialog of the browser is not heard.
  window.addEventListener("pointermove", ({ buttons }) => buttons === 0 && release(), true);
  window.addEventListener("blur", release);
  const isPressedBy = (key, node) =>
    (isControl(node) && (key === "Enter" || key === " ")) || (key === "Enter" && node.matches(FIELDS));
  window.addEventListener(
    "keydown",
    (event) => {
      const { repeat, key, target } = event;
      if (repeat && isDrawn(target) && isPressedBy(key, target)) event.preventDefault();
    },
    true,
  );
}

function isUsual({ isPrimary, button }) {
  return isPrimary && button === 0;
}

function press() {
  clearTimeout(ending);
  isPressed = true;
}

function release() {
  if (isPressed) ending = setTimeout(end);
}

function end() {
  isPressed = false;
  const redraws = [...held.values()];
  held.clear();
  for (const redraw of redraws) redraw();
}
