/** The fields for how curves are drawn: smoothing, a logarithmic axis, and the shown span. */

import { h } from "../visuals/base/dom.js";
import { button } from "../visuals/base/glyphs.js";
import { orderly, WHOLE } from "../visuals/charts/span.js";

/** The function that shows another span, with its ends swapped if they are the wrong way round; it is kept in `shape` of `shown`. */
export function zoomOf(shown, redraw) {
  return (span) => {
    const shape = { ...shown.shape, ...span };
    shown.shape = { ...shape, ...orderly(shape) };
    redraw();
  };
}

/** The fields; the choices are kept as `shape` of `shown`. */
export function drawShapeFields(shown, redraw) {
  const { shape, across } = shown;
  const change = zoomOf(shown, redraw);
  const number = (event) => (event.target.value.trim() === "" ? null : Number(event.target.value));
  const unit = across === "step" ? "step" : "second";
  const isZoomed = shape.from !== null || shape.to !== null;
  return [
    h(
      "div",
      { key: "shape", class: "st-shape", role: "group", "aria-label": "How curves are drawn" },
      h(
        "label",
        { key: "smooth" },
        "Smoothing ",
        h("input", {
          type: "range",
          min: 0,
          max: 0.99,
          step: 0.01,
          value: shape.smooth,
          "data-testid": "shape-smooth",
          on: { input: (event) => change({ smooth: Number(event.target.value) }) },
        }),
        ` ${shape.smooth ? shape.smooth.toFixed(2) : "none"}`,
      ),
      h(
        "label",
        { key: "log" },
        h("input", {
          type: "checkbox",
          checked: shape.log,
          "data-testid": "shape-log",
          on: { change: (event) => change({ log: event.target.checked }) },
        }),
        " Logarithmic",
      ),
      h(
        "span",
        { key: "span", class: "st-shape-span" },
        ["from", "to"].map((end) =>
          h(
            "label",
            { key: end },
            end === "from" ? `From ${unit} ` : "to ",
            h("input", {
              type: "number",
              class: "form-control form-control-sm",
              value: shape[end] ?? "",
              min: 0,
              step: "any",
              "data-testid": `shape-${end}`,
              on: { change: (event) => change({ [end]: number(event) }) },
            }),
          ),
        ),
      ),
      isZoomed && button("shape-whole", "Show all", () => change(WHOLE)),
    ),
    h(
      "p",
      { key: "keys", class: "st-muted st-shape-keys", "data-testid": "shape-keys" },
      "Drag over a plot to zoom in; a double click shows all. Keys on a plot: + and − zoom, ← and → move, Esc shows all.",
    ),
  ];
}
