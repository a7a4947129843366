/** The choice of the horizontal axis of metrics: steps or time. */

import { h } from "../visuals/base/dom.js";

/** The field; the choice is kept as `across` of `shown`. */
export function drawAcross(shown, redraw) {
  const choose = (event) => {
    shown.across = event.target.value;
    redraw();
  };
  return h(
    "label",
    { key: "across", class: "st-span" },
    "Over ",
    h(
      "select",
      { class: "form-select form-select-sm", "data-testid": "metrics-across", on: { change: choose } },
      h("option", { key: "step", value: "step" }, "steps"),
      h("option", { key: "time", value: "time" }, "time"),
    ),
  );
}
