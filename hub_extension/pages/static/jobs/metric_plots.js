/** The plots of all metrics of a page: with a filter by name if there are many, and drawn as they come into sight. */

import { h } from "../visuals/base/dom.js";
import { drawInSight } from "../visuals/base/pace.js";
import { clean, count } from "../visuals/base/words.js";

/** Plots that are drawn at once; more than these can be filtered. */
const FEW_PLOTS = 12;

/**
 * The field and the plots.
 * @param names of the metrics, in their order
 * @param shown keeps the words of the filter as `named`
 * @param redraw called when these have changed
 * @param render `render(node, name)` draws one plot
 * @param more plots that follow, as descriptions
 */
export function drawMetricPlots(names, shown, redraw, render, more = []) {
  const isMany = names.length > FEW_PLOTS;
  const words = isMany ? shown.named.trim().toLowerCase() : "";
  const found = names.filter((name) => name.toLowerCase().includes(words));
  return [
    isMany && drawFilter(found, names, shown, redraw),
    h(
      "div",
      { key: "curves", class: "st-curves" },
      found.map((name, place) =>
        h("div", {
          key: name,
          class: "st-plot-place",
          draw: (node) => (place < FEW_PLOTS ? render(node, name) : drawInSight(node, () => render(node, name))),
        }),
      ),
      more,
    ),
  ];
}

function drawFilter(found, names, shown, redraw) {
  const change = (event) => {
    shown.named = event.target.value;
    redraw();
  };
  const all = count(names.length, "metric");
  const words =
    found.length === names.length
      ? all
      : found.length
        ? `${found.length} of ${all}`
        : `No metric has “${clean(shown.named.trim())}” in its name.`;
  return h(
    "div",
    { key: "named", class: "st-metric-filter", role: "search", "aria-label": "Metrics" },
    h("input", {
      key: "words",
      type: "search",
      class: "form-control form-control-sm",
      placeholder: "Name of a metric",
      "aria-label": "Show metrics with these words in their names",
      value: shown.named,
      "data-testid": "metrics-named",
      on: { input: change },
    }),
    h("span", { key: "count", class: "st-muted", role: "status", "data-testid": "metrics-count" }, words),
  );
}
