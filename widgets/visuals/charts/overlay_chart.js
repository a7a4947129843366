/** A metric of several runs in one plot: a line of its own colour and dashes for each run. */

import { h, memory, patch, s } from "../base/dom.js";
import { colourOf, stage } from "../base/glyphs.js";
import { amount, clean } from "../base/words.js";
import { PLAIN, shaped } from "./curve_shape.js";
import { finiteOf, lastOf, stretchesOf } from "./loss_curve.js";
import { isSame, lineOf, plotFigure, plotOf, wholeOf } from "./metric_chart.js";
import { ACROSS, acrossOf, placeOf } from "./run_clock.js";
import { zooming } from "./zooming.js";

const COLOURS = 10;
const DASHES = [null, "7 3", "2 3", "9 3 2 3"];

/** The style of a run's line by its place: the first twenty all differ. */
function lookOf(place) {
  return { style: colourOf(place % COLOURS), "stroke-dasharray": DASHES[place % DASHES.length] };
}

/** The legend key of a run, by its place. */
export function runKey(place) {
  return s(
    "svg",
    { key: "key", class: "st-run-key", viewBox: "0 0 28 8", "aria-hidden": "true" },
    s("path", { class: "st-line", d: "M1 4H27", ...lookOf(place) }),
  );
}

/**
 * Draws a metric of several runs.
 * @param data `runs`: list of `place`, `name`, `origin`: the run that it continues, in words, or null, `points`: list of
 *   Point, and `started`: when the job started, or null; `name`:
 *   which value; `across`: a key of `ACROSS`; `shape`: of `curve_shape.js`; `zoom(span)`: called with the span that was
 *   selected
 */
export function renderOverlayChart(element, data) {
  const { runs, name, shape = PLAIN, zoom } = data;
  const drawn = memory(element, { given: [], drag: null });
  const about = runs.flatMap((run) => [run.place, run.name, run.origin, run.points, run.started]);
  const given = [name, data.across, shape, drawn.drag, ...about];
  if (isSame(given, drawn.given)) return;
  drawn.given = given;
  const found = runs
    .map((run) => ({ ...run, finite: finiteOf(run.points, name), last: lastOf(run.points, name) }))
    .filter((run) => run.finite.length > 0);
  const across = acrossOf(
    data.across,
    found.flatMap((run) => run.finite),
  );
  const reported = found.map((run) => {
    const place = placeOf(across, run.points, run.started ?? null);
    return { ...run, finite: run.finite.map((point) => ({ ...point, along: place(point) })) };
  });
  const lines = reported
    .map((run) => ({ ...run, points: shaped(run.finite, name, shape) }))
    .filter((run) => run.points.length > 0);
  const title = clean(name);
  stage(element, "st-metric");
  if (!lines.length) {
    patch(element, h("p", { key: "none", class: "st-muted" }, `${title}: nothing to draw here.`));
    return;
  }
  const plot = plotOf(
    lines.flatMap((run) => run.points),
    { name, across, whole: wholeOf(reported.flatMap((run) => run.finite)), shape },
  );
  patch(
    element,
    plotFigure(
      {
        name: `overlay-${title}`,
        label: `${title} of ${lines.map((run) => clean(run.name)).join(", ")}, over ${ACROSS[across].choice}`,
        zooming: zoom && zooming(drawn, plot, shape, zoom, () => renderOverlayChart(element, data)),
        selection: drawn.drag,
      },
      [h("strong", {}, title), h("ul", { class: "st-run-keys" }, lines.map(drawKey()))],
      plot,
      lines.map((run) => drawRun(run, name, plot)),
    ),
  );
}

function drawKey() {
  return (run) =>
    h(
      "li",
      { key: run.place },
      runKey(run.place),
      " ",
      h(
        "span",
        { key: "name" },
        h("bdi", {}, clean(run.name)),
        run.origin && [" ", h("span", { class: "st-muted", "data-testid": "run-origin" }, `(${run.origin})`)],
      ),
      " ",
      h("span", { key: "last", class: "st-muted" }, amount(run.last)),
    );
}

function drawRun(run, name, plot) {
  return s(
    "g",
    { key: `run ${run.place}`, "data-testid": "overlay-run" },
    s("title", {}, clean(run.name)),
    stretchesOf(run.points).map((part) =>
      s("path", { key: part[0].stretch, class: "st-line", d: lineOf(part, name, plot), ...lookOf(run.place) }),
    ),
  );
}
