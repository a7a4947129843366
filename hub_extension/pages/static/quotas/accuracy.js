/** How true the forecasts of starts were that people have seen. */

import { h } from "../visuals/base/dom.js";
import { emptyState } from "../visuals/base/glyphs.js";
import { count, duration } from "../visuals/base/words.js";

/** The share of starts that came within the window that was shown, and the errors of the others. */
export function drawAccuracy(accuracy) {
  if (!accuracy.forecasts)
    return emptyState(
      "No job has started yet whose start was forecast. Forecasts are made while somebody looks at a waiting job.",
    );
  return h("p", { "data-testid": "accuracy" }, sentences(accuracy).join(" "));
}

function sentences({ forecasts, jobs, inside, early, late, median_error: error }) {
  const share = Math.round((100 * inside) / forecasts);
  return [
    `${share} % of the starts that were forecast in the last 30 days came within the time shown (${count(forecasts, "forecast")} of ${count(jobs, "job")}).`,
    early + late > 0 && `${count(early, "start")} came before that time, ${late} after it.`,
    `Half of the likely starts were less than ${duration(error)} off.`,
  ].filter(Boolean);
}
