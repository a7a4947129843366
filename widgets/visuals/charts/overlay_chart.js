/** A metric of several runs in one plot: steps or time across, a line of its own colour and dashes for each run. */

import { h, memory, patch, s } from "../base/dom.js";
import { colourOf, stage } from "../base/glyphs.js";
import { amount, clean } from "../base/words.js";
import { inPowers, smoothed, within } from "./curve_shape.js";
import { finiteOf, lastOf, stretchesOf } from "./loss_curve.js";
import { lineOf, plotFigure, plotOf } from "./metric_chart.js";

const PLAIN = { smooth: 0, log: false, from: null, to: null };
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
 * @param data `runs`: list of `place`, `name` and `points`: list of Point; `name`: which value; `across`: "step" or "time",
 *   which each run counts from its first report; `shape`: `smooth`, a weight, `log`, and the shown span `from` and `to`
 */
export function renderOverlayChart(element, { runs, name, across, shape = PLAIN }) {
  const drawn = memory(element, { given: [] });
  const given = [name, across, shape, ...runs.flatMap((run) => [run.place, run.name, run.points])];
  if (given.length === drawn.given.length && given.every((part, place) => part === drawn.given[place])) return;
  drawn.given = given;
  const reported = runs
    .map((run) => ({ ...run, points: finiteOf(run.points, name), last: lastOf(run.points, name) }))
    .filter((run) => run.points.length > 0);
  const stepped =
    across === "step" && reported.every((run) => run.points.every((point) => Number.isFinite(point.step)));
  const along = (point) => point.along;
  const lines = reported
    .map((run) => ({
      ...run,
      points: shaped(
        run.points.map((point) => ({
          stretch: point.stretch,
          values: point.values,
          along: stepped ? point.step : point.at - run.points[0].at,
        })),
        { name, along, shape },
      ),
    }))
    .filter((run) => run.points.length > 0);
  const title = clean(name);
  stage(element, "st-metric");
  if (!lines.length) {
    patch(element, h("p", { key: "none", class: "st-muted" }, `${title}: nothing to draw here.`));
    return;
  }
  const plot = plotOf(
    lines.flatMap((run) => run.points),
    name,
    along,
    stepped,
    [],
    shape.log,
  );
  patch(
    element,
    plotFigure(
      {
        name: `overlay-${title}`,
        label: `${title} of ${lines.map((run) => clean(run.name)).join(", ")}, over ${stepped ? "steps" : "time"}`,
      },
      [h("strong", {}, title), h("ul", { class: "st-run-keys" }, lines.map(drawKey()))],
      plot,
      undefined,
      lines.map((run) => drawRun(run, name, along, plot)),
    ),
  );
}

function shaped(points, { name, along, shape }) {
  const seen = within(smoothed(points, name, shape.smooth), along, shape.from, shape.to);
  return shape.log ? inPowers(seen, name) : seen;
}

function drawKey() {
  return (run) =>
    h(
      "li",
      { key: run.place },
      runKey(run.place),
      " ",
      h("bdi", {}, clean(run.name)),
      " ",
      h("span", { class: "st-muted" }, amount(run.last)),
    );
}

function drawRun(run, name, along, plot) {
  return s(
    "g",
    { key: `run ${run.place}`, "data-testid": "overlay-run" },
    s("title", {}, clean(run.name)),
    stretchesOf(run.points).map((part) =>
      s("path", { key: part[0].stretch, class: "st-line", d: lineOf(part, name, along, plot), ...lookOf(run.place) }),
    ),
  );
}
