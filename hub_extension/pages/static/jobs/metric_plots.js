/** The plots of the metrics of a page: the first of many, with a filter by name, and drawn as they come into sight. */

import { h } from "../visuals/base/dom.js";
import { button } from "../visuals/base/glyphs.js";
import { drawInSight } from "../visuals/base/pace.js";
import { amount, clean, count } from "../visuals/base/words.js";

/** Plots that are drawn at once; more than these can be filtered. */
const FEW_PLOTS = 12;
/** Plots that are listed until all are asked for. */
const MOST_LISTED = 20;
/** Reports that make a curve. */
const CURVE = 2;

/** The names of many metrics with those that have curves first, each in their order; those of few as they are. */
export function curvesFirst(names, points) {
  if (names.length <= MOST_LISTED) return names;
  const reports = new Map();
  for (const { values } of points)
    for (const [name, value] of Object.entries(values))
      if (Number.isFinite(value)) reports.set(name, (reports.get(name) ?? 0) + 1);
  const isCurve = (name) => (reports.get(name) ?? 0) >= CURVE;
  return [...names.filter(isCurve), ...names.filter((name) => !isCurve(name))];
}

/**
 * The field and the plots.
 * @param names of the metrics, in their order
 * @param shown keeps the words of the filter as `named`, and as `whole` whether all plots are listed
 * @param redraw called when these have changed
 * @param render `render(node, name)` draws one plot
 * @param more plots that follow, as descriptions
 * @param below titles of the sections that follow on the page, by their keys
 */
export function drawMetricPlots(names, shown, redraw, render, more = [], below = {}) {
  const isMany = names.length > FEW_PLOTS;
  const words = isMany ? shown.named.trim().toLowerCase() : "";
  const found = names.filter((name) => name.toLowerCase().includes(words));
  const listed = shown.whole ? found : found.slice(0, MOST_LISTED);
  return [
    isMany && drawFilter(found, names, shown, redraw, below),
    h(
      "div",
      { key: "curves", class: "st-curves" },
      listed.map((name, place) =>
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

function drawFilter(found, names, shown, redraw, below) {
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
    found.length > MOST_LISTED &&
      button(
        "metrics-whole",
        shown.whole ? `Show the first ${MOST_LISTED}` : `Show all ${amount(found.length)}`,
        () => {
          shown.whole = !shown.whole;
          redraw();
        },
      ),
    shown.whole &&
      found.length > MOST_LISTED &&
      Object.keys(below).length > 0 &&
      h(
        "nav",
        { key: "below", class: "st-metric-below", "aria-label": "Below the metrics", "data-testid": "metrics-below" },
        Object.entries(below).map(([key, title]) => h("a", { key, href: `#section-${key}` }, title)),
      ),
  );
}
