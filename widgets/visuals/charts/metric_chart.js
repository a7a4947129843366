/** A metric over all attempts of a job, with axes: steps or time across, pauses and resumptions marked. */

import { h, memory, patch, s } from "../base/dom.js";
import { colourOf, stage } from "../base/glyphs.js";
import { amount, clean, count, duration, exactDuration } from "../base/words.js";
import { powerTicks } from "./curve_shape.js";
import { attemptsOf, finiteOf, lastOf, stretchesOf } from "./loss_curve.js";
import { fraction, ticks, timeTicks } from "./scale.js";

/** Width and height of a chart and the least margins of its plot, in units of the drawing. */
const SIZE = { width: 600, height: 214, left: 64, right: 12, top: 10, bottom: 48 };
const WIDEST_LABEL = 60;
const LABEL_GAP = 8;
/** Width of a character of a label where the drawing is narrow, and its text the largest. */
const WIDEST_CHARACTER = 10.5;
const MOST_DRAWN = 1200;

/**
 * Draws a metric.
 * @param data `points`: list of Point; `name`: which value; `across`: "step" or "time"; `start`: where time begins, in
 *   seconds since the epoch; `since`: the title of the time axis; `bounds`: values that the scale always includes;
 *   `colour`: of the project
 */
export function renderMetricChart(element, data) {
  const drawn = memory(element, {});
  if (
    drawn.points === data.points &&
    drawn.name === data.name &&
    drawn.across === data.across &&
    drawn.colour === data.colour
  )
    return;
  Object.assign(drawn, data);
  const points = finiteOf(data.points, data.name);
  const stepped = data.across === "step" && points.every((point) => Number.isFinite(point.step));
  const along = stepped ? (point) => point.step : (point) => point.at - data.start;
  const last = lastOf(data.points, data.name);
  stage(element, "st-metric");
  if (points.length < 2) {
    patch(element, h("p", { key: "few", class: "st-muted" }, `${clean(data.name)}: ${fewWords(points, last)}`));
    return;
  }
  const plot = plotOf(points, data.name, along, stepped, data.bounds ?? []);
  const words = metricWords(points, data.name, last);
  patch(
    element,
    plotFigure(
      { name: `metric-${clean(data.name)}`, label: `${clean(data.name)} ${words}`, style: colourOf(data.colour) },
      [h("strong", {}, clean(data.name)), h("span", { class: "st-muted" }, ` ${words}`)],
      plot,
      data.since,
      breaksOf(points, along).map((mark) => drawBreak(mark, plot)),
      stretchesOf(points).map((part) =>
        s("path", { key: `line ${part[0].stretch}`, class: "st-line", d: lineOf(part, data.name, along, plot) }),
      ),
    ),
  );
}

/**
 * A plot with its axes, as a description.
 * @param about `name` for tests; `label`: its description for screen readers; `style`
 * @param caption the text above the plot
 * @param plot of `plotOf`
 * @param since the title of the time axis
 * @param marks the content of the plot
 */
export function plotFigure({ name, label, style }, caption, plot, since = "time since the first report", ...marks) {
  const { width, height, right } = SIZE;
  const svg = { key: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, "data-testid": name };
  const end = { key: "across", class: "st-axis-name", x: width - right, y: height - 2, "text-anchor": "end" };
  return h(
    "figure",
    { key: "figure", class: "st-metric-figure", style },
    h("figcaption", { key: "name" }, caption),
    s(
      "svg",
      svg,
      plot.ys.map((value) => drawRow(value, plot)),
      plot.xs.map((value) => drawColumn(value, plot)),
      s("text", end, plot.stepped ? "step" : since),
      marks,
    ),
  );
}

function fewWords(points, last) {
  const finite = last === undefined || Number.isFinite(last);
  return finite ? `${count(points.length, "report")} so far.` : `last ${amount(last)}, nothing to draw.`;
}

function metricWords(points, name, last) {
  const values = points.map((point) => point.values[name]);
  const low = values.reduce((least, value) => Math.min(least, value));
  const high = values.reduce((most, value) => Math.max(most, value));
  const pauses = new Set(points.map((point) => point.attempt)).size - 1;
  return `last ${amount(last)}, from ${amount(low)} to ${amount(high)}${pauses ? `, ${count(pauses, "pause")}` : ""}`;
}

/**
 * The scales of a plot for its points and `bounds`, over steps or seconds: `x` and `y` of a value, its margin `left`, which
 * fits the labels, marks `xs` and `ys`, `label` of a mark. With `powers` the values are powers of ten.
 */
export function plotOf(points, name, along, stepped, bounds, powers = false) {
  const range = (values) => [
    values.reduce((least, value) => Math.min(least, value)),
    values.reduce((most, value) => Math.max(most, value)),
  ];
  const [low, high] = range([...points.map((point) => point.values[name]), ...bounds]);
  const [from, to] = range(points.map(along));
  const ys = powers ? powerTicks(low, high, ticks) : ticks(low, high);
  const bottom = Math.min(low, ys[0]);
  const top = Math.max(high, ys.at(-1));
  const label = powers ? (value) => amount(10 ** value) : amount;
  const longest = Math.max(...ys.map((value) => label(value).length));
  const left = Math.max(SIZE.left, 2 * LABEL_GAP + WIDEST_CHARACTER * longest);
  const width = SIZE.width - left - SIZE.right;
  const height = SIZE.height - SIZE.top - SIZE.bottom;
  return {
    stepped,
    label,
    left,
    ys,
    xs: (stepped ? ticks(from, to) : timeTicks(from, to)).filter((value) => value >= from && value <= to),
    x: (value) => left + width * fraction(value, from, to),
    y: (value) => SIZE.top + height * (1 - fraction(value, bottom, top)),
  };
}

/** A mark of the vertical axis with its line. */
function drawRow(value, { y, label, left }) {
  return s(
    "g",
    { key: `row ${value}` },
    s("line", { class: "st-grid", x1: left, x2: SIZE.width - SIZE.right, y1: y(value), y2: y(value) }),
    s("text", { x: left - LABEL_GAP, y: y(value) + 4, "text-anchor": "end" }, label(value)),
  );
}

/** A mark of the horizontal axis, of steps or of seconds. */
function drawColumn(value, { x, stepped }) {
  return s(
    "g",
    { key: `column ${value}` },
    s("line", {
      class: "st-grid",
      x1: x(value),
      x2: x(value),
      y1: SIZE.height - SIZE.bottom,
      y2: SIZE.height - SIZE.bottom + 4,
    }),
    s(
      "text",
      {
        x: x(value),
        y: SIZE.height - SIZE.bottom + 22,
        "text-anchor": x(value) > SIZE.width - SIZE.right - WIDEST_LABEL / 2 ? "end" : "middle",
      },
      stepped ? amount(value) : exactDuration(value),
    ),
  );
}

/** The marks between the end of one attempt and the start of the next. */
function breaksOf(points, along) {
  const parts = attemptsOf(points);
  return parts
    .slice(1)
    .map((part, place) => ({
      attempt: part[0].attempt,
      at: along(part[0]),
      before: parts[place].at(-1),
      first: part[0],
    }));
}

function drawBreak({ attempt, at, before, first }, { x }) {
  const words = `Paused ${duration(first.at - before.at)}; attempt ${attempt} resumed here`;
  return s(
    "line",
    {
      key: `break ${attempt}`,
      class: "st-resume",
      x1: x(at),
      x2: x(at),
      y1: SIZE.top,
      y2: SIZE.height - SIZE.bottom,
      "data-testid": "metric-pause",
    },
    s("title", {}, words),
  );
}

/** The path of one part of a curve. */
export function lineOf(part, name, along, { x, y }) {
  const every = Math.max(1, Math.ceil(part.length / MOST_DRAWN));
  const drawn = part.filter((_, place) => place % every === 0 || place === part.length - 1);
  const d = drawn
    .map((point, place) => `${place ? "L" : "M"}${x(along(point)).toFixed(1)} ${y(point.values[name]).toFixed(1)}`)
    .join("");
  return part.length === 1 ? `${d}h0.01` : d;
}
