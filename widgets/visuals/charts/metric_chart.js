/** A metric over all attempts of a job, with axes; pauses and resumptions are marked. */

import { h, memory, patch, s } from "../base/dom.js";
import { colourOf, stage } from "../base/glyphs.js";
import { amount, clean, count, duration, exactDuration, markWords } from "../base/words.js";
import { PLAIN, powerTicks, shaped } from "./curve_shape.js";
import { attemptsOf, finiteOf, lastOf, stretchesOf } from "./loss_curve.js";
import { ACROSS, acrossOf, placeOf } from "./run_clock.js";
import { fraction, ticks, timeTicks } from "./scale.js";
import { drawSelection, zooming } from "./zooming.js";

/** Width and height of a chart and the least margins of its plot, in units of the drawing. */
const SIZE = { width: 600, height: 218, left: 64, right: 12, top: 14, bottom: 48 };
const WIDEST_LABEL = 60;
const LABEL_GAP = 8;
/** Width of a character of a label where the drawing is narrow, and its text the largest. */
const WIDEST_CHARACTER = 10.5;
const MOST_DRAWN = 1200;
/** What lines may draw beyond the ends of the plot, so that none of their width is cut. */
const EDGE = 3;

/**
 * Draws a metric.
 * @param data `points`: list of Point; `name`: which value; `across`: a key of `ACROSS`; `started`: when the job started,
 *   or null; `shape`: of `curve_shape.js`; `zoom(span)`: called with the span that was selected; `bounds`: values that the
 *   scale always includes; `colour`: of the project
 */
export function renderMetricChart(element, data) {
  const { points, name, started = null, shape = PLAIN, zoom, bounds = [], colour } = data;
  const drawn = memory(element, { given: [], drag: null });
  const given = [points, name, data.across, started, shape, colour, drawn.drag];
  if (isSame(given, drawn.given)) return;
  drawn.given = given;
  const across = acrossOf(data.across, finiteOf(points, name));
  const place = placeOf(across, points, started);
  const finite = finiteOf(points, name).map((point) => ({ ...point, along: place(point) }));
  const last = lastOf(points, name);
  stage(element, "st-metric");
  const kept = shaped(finite, name, shape);
  if (finite.length < 2 || !kept.length) {
    const why = finite.length < 2 ? fewWords(finite, last) : "nothing to draw here.";
    patch(element, h("p", { key: "few", class: "st-muted" }, `${clean(name)}: ${why}`));
    return;
  }
  const plot = plotOf(kept, { name, across, whole: wholeOf(finite), shape, bounds });
  const words = metricWords(finite, name, last);
  patch(
    element,
    plotFigure(
      {
        name: `metric-${clean(name)}`,
        label: `${clean(name)} ${words}`,
        style: colourOf(colour),
        zooming: zoom && zooming(drawn, plot, shape, zoom, () => renderMetricChart(element, data)),
        selection: drawn.drag,
      },
      [h("strong", {}, clean(name)), h("span", { class: "st-muted" }, ` ${words}`)],
      plot,
      breaksOf(finite)
        .filter(({ at }) => at >= plot.from && at <= plot.to)
        .map((mark) => drawBreak(mark, plot)),
      stretchesOf(kept).map((part) =>
        s("path", { key: `line ${part[0].stretch}`, class: "st-line", d: lineOf(part, name, plot) }),
      ),
    ),
  );
}

/** Whether two lists have the same parts. */
export function isSame(given, before) {
  return given.length === before.length && given.every((part, place) => part === before[place]);
}

/**
 * A plot with its axes, as a description.
 * @param about `name` for tests; `label`: its description for screen readers; `style`; `zooming`: the properties of a plot
 *   that can be zoomed; `selection`: the range being selected
 * @param caption the text above the plot
 * @param plot of `plotOf`
 * @param marks the content of the plot
 */
export function plotFigure({ name, label, style, zooming: zoomable, selection }, caption, plot, ...marks) {
  const { width, height, right, top, bottom } = SIZE;
  const { left } = plot;
  const svg = { key: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, "data-testid": name };
  const end = { key: "across", class: "st-axis-name", x: width - right, y: height - 5, "text-anchor": "end" };
  const inside = {
    x: left - EDGE,
    y: top - EDGE,
    width: width - left - right + 2 * EDGE,
    height: height - top - bottom + 2 * EDGE,
  };
  return h(
    "figure",
    { key: "figure", class: "st-metric-figure", style },
    h("figcaption", { key: "name" }, caption),
    s(
      "svg",
      { ...svg, ...zoomable },
      plot.ys.map((value) => drawRow(value, plot)),
      plot.xs.map((value) => drawColumn(value, plot)),
      s("text", end, ACROSS[plot.across].title),
      s(
        "svg",
        {
          key: "inside",
          "aria-hidden": "true",
          viewBox: `${inside.x} ${inside.y} ${inside.width} ${inside.height}`,
          ...inside,
        },
        selection && drawSelection(selection, plot, { y: top, height: height - top - bottom }),
        marks,
      ),
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

/** The first and the last place of points with a place `along` the axis, as `from` and `to`. */
export function wholeOf(points) {
  const [from, to] = rangeOf(points.map((point) => point.along));
  return { from, to };
}

function rangeOf(values) {
  return [
    values.reduce((least, value) => Math.min(least, value)),
    values.reduce((most, value) => Math.max(most, value)),
  ];
}

/**
 * The scales of a plot of points of `shaped`: `x` and `y` of a value, its margin `left`, which fits the labels, marks `xs`
 * and `ys`, their words `placeLabel` and `label`, the shown part `from` and `to` of the axis, and `along`, the inverse of `x`.
 * @param about `name` of the metric; `across`: a key of `ACROSS`; `whole`: all of the axis; `shape` of the points; `bounds`:
 *   values that the scale always includes
 */
export function plotOf(points, { name, across, whole, shape, bounds = [] }) {
  const from = shape.from ?? whole.from;
  const to = shape.to ?? whole.to;
  const seen = points.filter((point) => point.along >= from && point.along <= to);
  const [low, high] = rangeOf([...(seen.length ? seen : points).map((point) => point.values[name]), ...bounds]);
  const ys = shape.log ? powerTicks(low, high, ticks) : ticks(low, high);
  const lowest = Math.min(low, ys[0]);
  const highest = Math.max(high, ys.at(-1));
  const numberAt = shape.log ? (mark) => 10 ** mark : (mark) => mark;
  const words = markWords(ys.map(numberAt));
  const label = (mark) => words(numberAt(mark));
  const longest = Math.max(...ys.map((value) => label(value).length));
  const left = Math.max(SIZE.left, 2 * LABEL_GAP + WIDEST_CHARACTER * longest);
  const width = SIZE.width - left - SIZE.right;
  const height = SIZE.height - SIZE.top - SIZE.bottom;
  const xs = (across === "step" ? ticks(from, to) : timeTicks(from, to)).filter(
    (value) => value >= from && value <= to,
  );
  return {
    across,
    whole,
    from,
    to,
    label,
    left,
    ys,
    xs,
    placeLabel: across === "step" ? markWords(xs) : exactDuration,
    x: (value) => left + width * fraction(value, from, to),
    y: (value) => SIZE.top + height * (1 - fraction(value, lowest, highest)),
    along: (x) => from + (to - from) * Math.min(1, Math.max(0, (x - left) / width)),
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
function drawColumn(value, { x, placeLabel }) {
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
      placeLabel(value),
    ),
  );
}

/** The marks between the end of one attempt and the start of the next. */
function breaksOf(points) {
  const parts = attemptsOf(points);
  return parts
    .slice(1)
    .map((part, place) => ({
      attempt: part[0].attempt,
      at: part[0].along,
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
export function lineOf(part, name, { x, y }) {
  const every = Math.max(1, Math.ceil(part.length / MOST_DRAWN));
  const drawn = part.filter((_, place) => place % every === 0 || place === part.length - 1);
  const d = drawn
    .map((point, place) => `${place ? "L" : "M"}${x(point.along).toFixed(1)} ${y(point.values[name]).toFixed(1)}`)
    .join("");
  return part.length === 1 ? `${d}h0.01` : d;
}
