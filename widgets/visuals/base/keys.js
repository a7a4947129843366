/** Keys that are pressed in an output of a notebook belong to the output. */

const LEFT_ALONE = "data-lm-suppress-shortcuts";
const kept = new WeakSet();

/**
 * Leaves plain keys that are pressed within an element to it. JupyterLab takes a letter on a button or a list for a command
 * of the notebook, such as `x` to cut the cell, unless the focused element itself has the attribute. Keys with Ctrl, Alt
 * or Meta stay commands; an element around it that has the attribute would keep those of the window, such as Ctrl+S.
 */
export function keepKeys(element) {
  kept.add(element);
  window.addEventListener("keydown", mark, true); // before the document, where JupyterLab listens
}

function mark({ target, ctrlKey, altKey, metaKey }) {
  if (!(target instanceof Element) || !isWithin(target)) return;
  if (ctrlKey || altKey || metaKey) target.removeAttribute(LEFT_ALONE);
  else target.setAttribute(LEFT_ALONE, "true");
}

function isWithin(target) {
  for (let each = target; each; each = each.parentElement) if (kept.has(each)) return true;
  return false;
}
