/** Keeps the keyboard's focus over redraws, also if its element is removed or disabled. */

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
/** Words of a button that opens a question, a field or a form end so. */
const OPENS = /…$/;
const MOST_OPENERS = 20;
let depth = 0;
let focused = null;
let openers = [];
let moved = null;
let returned = null;
const guarded = new WeakSet();
const regions = new WeakSet();

/** Hook of the first field of a form: gives it the focus when the form opens. */
export function focusOnce(node) {
  if (node.dataset.focused) return;
  node.dataset.focused = "yes";
  node.focus();
}

/**
 * Calls `redraw`, which changes the content of `root`. If the element with the focus is removed, the focus moves:
 * - back to the button that opened the question, field or form that it closed;
 * - if that button is gone as well, at once or before another key is pressed, to the region around it: a second press of
 *   the key does nothing there;
 * - else to the first new element beside it, such as the first answer to a question, or to its neighbour.
 *
 * While that element, or everything in its place or all that is new there, is disabled, the focus moves once it is enabled,
 * unless another element has it by then. A key that is still held does not press the element that gets the focus.
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
  const before = new Set(root.querySelectorAll(FOCUSABLE));
  const expanded = [...before]
    .filter((each) => each.ariaExpanded === "true")
    .map((button) => ({ button, parent: button.parentElement }));
  focused = {
    element,
    around,
    before,
    expanded,
    mark: controlName(element),
    opens: OPENS.test(element.textContent.trim()),
  };
}

function restore({ activeElement, body }) {
  if (!focused) return;
  const { element, awaited } = focused;
  const isElsewhere = activeElement && activeElement !== body && activeElement !== element;
  if (isElsewhere) {
    if (!element.isConnected) noteOpener(focused);
    if (!focused.before.has(activeElement)) guard(activeElement);
    focused = null;
  } else if (awaited) giveBack(awaited);
  else if (!element.isConnected) giveToSuccessor(focused);
  else if (isUsable(element)) give(activeElement === element ? null : element);
}

function give(element) {
  element?.focus({ preventScroll: true });
  if (element) guard(element);
  focused = null;
}

/** Keeps the key that moved the focus to `element` from pressing it by its repetitions, until the key is released. */
function guard(element) {
  moved = element;
  const page = element.ownerDocument;
  if (guarded.has(page)) return;
  guarded.add(page);
  page.addEventListener("keydown", (event) => event.repeat && event.target === moved && event.preventDefault(), true);
  page.addEventListener("keydown", (event) => event.repeat || (returned = null), true);
  page.addEventListener("keyup", () => (moved = null), true);
}

function giveToSuccessor(left) {
  const place = surviving(left);
  const folded = left.expanded.find(
    ({ button, parent }) => place?.contains(parent) && !(button.isConnected && button.ariaExpanded === "true"),
  );
  const opener = closedBy(left);
  if (folded) giveBack({ button: () => folded.button.isConnected && folded.button, place });
  else if (opener) giveBack(opener);
  else if (regions.has(left.element) || left.element === returned) giveRegion(place);
  else {
    noteOpener(left);
    giveBeside(left);
  }
}

const surviving = ({ around }) => around.find(({ parent }) => parent.isConnected)?.parent;

/** Remembers an element that was removed as what opened the content in its place. */
function noteOpener(left) {
  const place = surviving(left);
  if (!place || left.isNoted || closedBy(left)) return;
  left.isNoted = true;
  const { mark, before, opens } = left;
  const button = () => controlsIn(place).find((each) => controlName(each) === mark && !before.has(each));
  openers = [...openers, { place, before, opens, button }].slice(-MOST_OPENERS);
}

/** What opened the content that has gone with the removed element; undefined if nothing did. Later openers are forgotten. */
function closedBy({ element, around }) {
  const kept = around.findIndex(({ parent }) => parent.isConnected);
  const places = around.slice(0, kept + 1).map(({ parent }) => parent);
  const at = openers.findLastIndex(
    (opener) => places.includes(opener.place) && !opener.before.has(element) && (opener.opens || opener.button()),
  );
  if (at < 0) return undefined;
  const opener = openers[at];
  openers = openers.slice(0, at);
  return opener;
}

/** Gives the focus to the button that opened something, once it is enabled; without it, to the region around it. */
function giveBack(opener) {
  const button = opener.button();
  if (!button) giveRegion(opener.place.isConnected ? opener.place : surviving(focused));
  else if (!isUsable(button)) focused = { ...focused, awaited: opener };
  else {
    give(button);
    returned = button;
  }
}

function giveRegion(place) {
  if (!place?.isConnected) return give(null);
  if (!place.matches(FOCUSABLE)) place.tabIndex = -1;
  regions.add(place);
  return give(place);
}

/** Whether two elements are the same control of two drawings: its name, or else its words. */
function controlName(element) {
  return `${element.tagName} ${element.dataset.testid ?? element.textContent}`;
}

function giveBeside({ around, before }) {
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
