/** The choice of the horizontal axis of metrics: steps, time, or time without pauses. */

import { h } from "../visuals/base/dom.js";
import { ACROSS } from "../visuals/charts/run_clock.js";
import { WHOLE } from "../visuals/charts/span.js";

/** The field; the choice is kept as `across` of `shown`. Another axis is shown whole. */
export function drawAcross(shown, redraw) {
  const choose = (event) => {
    Object.assign(shown, { across: event.target.value, shape: { ...shown.shape, ...WHOLE } });
    redraw();
  };
  return h(
    "label",
    { key: "across", class: "st-span" },
    "Over ",
    h(
      "select",
      { class: "form-select form-select-sm", "data-testid": "metrics-across", on: { change: choose } },
      Object.entries(ACROSS).map(([value, { choice }]) => h("option", { key: value, value }, choice)),
    ),
  );
}
