/** One tooltip for all elements with `data-tip` in a root: on hover, on touch and on keyboard focus. */

import { h } from "./dom.js";

const DISTANCE = 8;
const tipped = new WeakSet();

/** Shows `data-tip` texts inside `root`; arrow keys move the focus among the marks of one `data-walk`. */
export function tips(root) {
  if (tipped.has(root)) return;
  tipped.add(root);
  const bubble = document.createElement("div");
  bubble.className = "st-tip springtide";
  bubble.setAttribute("role", "tooltip");
  const show = (event) => showTip(root, bubble, markOf(root, event.target));
  const hide = () => bubble.remove();
  root.addEventListener("pointerover", show);
  root.addEventListener("focusin", show);
  root.addEventListener("pointerleave", hide);
  root.addEventListener("focusout", hide);
  root.addEventListener("keydown", (event) => (event.key === "Escape" ? hide() : walk(event)));
}

/** The mark that a node of `root` is in, unless a root inside of `root` shows its tip. */
function markOf(root, node) {
  const mark = node.closest?.("[data-tip]") ?? null;
  let nearest = mark;
  while (nearest && !tipped.has(nearest)) nearest = nearest.parentElement;
  return nearest === root ? mark : null;
}

/** Describes a `line` of which two lines at most show, with the `whole` of it as a tip. */
export function clamped(line, whole, props) {
  const tip = whole ? { role: "group", tabindex: 0, "aria-label": whole, "data-tip": whole } : {};
  return h("span", { ...props, ...tip, class: `st-clamped ${props.class ?? ""}` }, line);
}

function showTip(root, bubble, mark) {
  if (!mark) {
    bubble.remove();
    return;
  }
  bubble.textContent = mark.dataset.tip;
  (root.closest("main") ?? document.body).append(bubble);
  const place = mark.getBoundingClientRect();
  const size = bubble.getBoundingClientRect();
  const left = place.left + place.width / 2 - size.width / 2;
  const above = place.top - size.height - DISTANCE;
  const top = above < DISTANCE ? place.bottom + DISTANCE : above;
  bubble.style.left = `${Math.max(DISTANCE, Math.min(left, window.innerWidth - size.width - DISTANCE))}px`;
  bubble.style.top = `${top}px`;
}

function walk(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const group = event.target.closest?.("[data-walk]");
  if (!step || !group) return;
  const marks = [...group.querySelectorAll("[data-tip]")];
  const next = marks[marks.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
