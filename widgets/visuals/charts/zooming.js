/** A plot that zooms to the part over which the mouse is dragged, and by keys while it has the focus. */

import { s } from "../base/dom.js";
import { moved, spanBetween, WHOLE, zoomed } from "./span.js";

const LEAST_DRAG_PX = 4;
const KEYS = {
  "+": (span, whole) => zoomed(span, whole, 1 / 2),
  "=": (span, whole) => zoomed(span, whole, 1 / 2),
  "-": (span, whole) => zoomed(span, whole, 2),
  ArrowLeft: (span, whole) => moved(span, whole, -1 / 4),
  ArrowRight: (span, whole) => moved(span, whole, 1 / 4),
  Escape: () => WHOLE,
};

/**
 * The properties of the element of a plot.
 * @param drawn the memory of the drawing: `drag` is the selection from one place to another
 * @param plot of `plotOf`
 * @param span the shown `from` and `to`
 * @param zoom called with a new span
 * @param redraw called when the selection has changed
 */
export function zooming(drawn, plot, span, zoom, redraw) {
  const select = (drag) => {
    drawn.drag = drag;
    redraw();
  };
  const begin = (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    const at = placeUnder(event, plot);
    select({ from: at, to: at, x: event.clientX });
  };
  const end = (event) => {
    const { drag } = drawn;
    if (!drag) return;
    select(null);
    const found = Math.abs(event.clientX - drag.x) >= LEAST_DRAG_PX && spanBetween(drag.from, drag.to, plot.whole);
    if (found) zoom(found);
  };
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    if (drawn.drag) select(null);
    else zoom(KEYS[event.key](span, plot.whole));
  };
  return {
    class: "st-zooms",
    tabindex: 0,
    "aria-keyshortcuts": "+ - ArrowLeft ArrowRight Escape",
    on: {
      pointerdown: begin,
      pointermove: (event) => drawn.drag && select({ ...drawn.drag, to: placeUnder(event, plot) }),
      pointerup: end,
      pointercancel: () => select(null),
      dblclick: () => zoom(WHOLE),
      keydown: press,
    },
  };
}

/** The place on the axis under the mouse. */
function placeUnder(event, plot) {
  const svg = event.currentTarget;
  const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return plot.along(x);
}

/** The range being selected, over the height of a plot. */
export function drawSelection({ from, to }, { x }, { y, height }) {
  const [left, right] = [x(from), x(to)].sort((one, other) => one - other);
  return s("rect", { key: "selection", class: "st-selected-span", x: left, width: right - left, y, height });
}
