/** The accuracy of the start forecasts that users have seen. */

import { h } from "../visuals/base/dom.js";
import { emptyState } from "../visuals/base/glyphs.js";
import { count, exactDuration } from "../visuals/base/words.js";

/** The share of starts within the forecast window, and the errors of the others. */
export function drawAccuracy(accuracy) {
  if (!accuracy.forecasts)
    return emptyState(
      "No job with a forecast start has started yet. Forecasts are made while a user views a waiting job.",
    );
  return h("p", { "data-testid": "accuracy" }, sentences(accuracy).join(" "));
}

function sentences({ forecasts, jobs, inside, early, late, median_error: error }) {
  const share = Math.round((100 * inside) / forecasts);
  return [
    `${share} % of the starts forecast in the last 30 days came within the time shown (${count(forecasts, "forecast")} of ${count(jobs, "job")}).`,
    early + late > 0 && `${count(early, "start")} came before that time, ${late} after it.`,
    `Half of the likely starts were at most ${exactDuration(Math.max(1, Math.ceil(error)))} off.`,
  ].filter(Boolean);
}
