/** The metrics of a job by their last values; a click chooses the one whose curve is drawn. */

import { h } from "../base/dom.js";
import { amount, clean } from "../base/words.js";
import { curveNames, lastOf } from "./loss_curve.js";

const MOST_SHOWN = 12;

/**
 * Draws the names of all metrics with their last values; nothing for one metric, which its curve names.
 * @param points list of Point
 * @param chosen the metric whose curve is drawn, if one was chosen
 * @param choose called with the name of a metric
 */
export function drawMetricNames(points, chosen, choose) {
  const names = curveNames(points);
  if (names.length < 2) return null;
  const more = names.length - MOST_SHOWN;
  return h(
    "div",
    { key: "metrics", class: "st-metric-names", role: "group", "aria-label": "Metrics", "data-testid": "job-metrics" },
    names
      .slice(0, MOST_SHOWN)
      .map((name) =>
        h(
          "button",
          {
            key: name,
            type: "button",
            class: "st-metric-name",
            "aria-pressed": String(name === (chosen ?? names[0])),
            title: `Draw ${clean(name)}`,
            on: { click: () => choose(name) },
          },
          h("span", { key: "name", class: "st-muted" }, clean(name)),
          ` ${amount(lastOf(points, name))}`,
        ),
      ),
    more > 0 && h("span", { key: "more", class: "st-muted" }, `and ${amount(more)} more`),
  );
}
