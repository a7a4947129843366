/** Keeps the keyboard's focus over redraws, also if its element is removed or disabled. */

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
let depth = 0;
let focused = null;

/** Hook of the first field of a form: gives it the focus when the form opens. */
export function focusOnce(node) {
  if (node.dataset.focused) return;
  node.dataset.focused = "yes";
  node.focus();
}

/**
 * Calls `redraw`, which changes the content of `root`. If the element with the focus is removed, the focus moves to the
 * first new element beside it, such as the first answer to a question, or else to its neighbour. While that element, or
 * everything in its place or all that is new there, is disabled, the focus returns once it is enabled, unless another
 * element has it by then.
 */
export function keepingFocus(root, redraw) {
  if (depth === 0) remember(root);
  depth += 1;
  try {
    redraw();
  } finally {
    depth -= 1;
  }
  if (depth === 0) restore(root.ownerDocument);
}

function remember(root) {
  const element = root.ownerDocument.activeElement;
  if (!element || element === root || !root.contains(element)) return;
  const around = [];
  for (let node = element; node !== root; node = node.parentElement)
    around.push({ next: node.nextElementSibling, previous: node.previousElementSibling, parent: node.parentElement });
  focused = { element, around, before: new Set(root.querySelectorAll(FOCUSABLE)) };
}

function restore({ activeElement, body }) {
  if (!focused) return;
  const { element } = focused;
  if (activeElement && activeElement !== body && activeElement !== element) focused = null;
  else if (!element.isConnected) giveToSuccessor(focused);
  else if (isUsable(element)) give(activeElement === element ? null : element);
}

function give(element) {
  element?.focus({ preventScroll: true });
  focused = null;
}

function giveToSuccessor({ around, before }) {
  for (const { next, previous, parent } of around) {
    const inside = controlsIn(parent);
    if (!inside.length) continue;
    const usable = inside.filter(isUsable);
    const isAwaited = inside.some((each) => !before.has(each)) && !usable.some((each) => !before.has(each));
    if (usable.length && !isAwaited)
      give(
        usable.find((each) => !before.has(each)) ??
          controlsIn(next).find(isUsable) ??
          controlsIn(previous).findLast(isUsable) ??
          usable[0],
      );
    return;
  }
  give(null);
}

function controlsIn(element) {
  if (!element?.isConnected) return [];
  const inside = [...element.querySelectorAll(FOCUSABLE)];
  return [...(element.matches(FOCUSABLE) ? [element] : []), ...inside].filter(
    (each) => each.tabIndex >= 0 && each.checkVisibility(),
  );
}

function isUsable(element) {
  return !element.matches(":disabled");
}
