/** The loss curve: one reported value over steps, with a mark where the job resumed. */

import { h, memory, patch, s } from "../base/dom.js";
import { colourOf, stage } from "../base/glyphs.js";
import { amount, clean, naturally } from "../base/words.js";
import { fraction } from "./scale.js";

const MOST_POINTS = 600;
const HEIGHT = 100;
const WIDTH = 1000;

/** The names of the reported values, the loss first, and `layer2` before `layer10`. */
export function curveNames(points) {
  const names = new Set(points.flatMap((point) => Object.keys(point.values)));
  return [...names].sort((one, other) => rank(one) - rank(other) || naturally(one, other));
}

/**
 * Draws one curve; nothing while there are fewer than two points.
 * @param data `points`: list of Point; `name`: which value (default: the loss); `colour`: of the project; `progress`: of
 *   the job, whose values may be newer than the points
 */
export function renderLossCurve(element, data) {
  const drawn = memory(element, {});
  const isDrawn = ["points", "name", "colour", "progress"].every((part) => drawn[part] === data[part]);
  if (isDrawn) return;
  Object.assign(drawn, data);
  const points = upToDate(data.points, data.progress);
  const name = data.name ?? curveNames(points)[0];
  const all = finiteOf(points, name);
  stage(element, "st-curve");
  if (all.length < 2) {
    patch(element);
    return;
  }
  const frame = frameOf(all, name);
  const last = all.at(-1);
  const newest = lastOf(points, name);
  patch(
    element,
    h(
      "div",
      {
        key: "plot",
        class: "st-plot",
        style: colourOf(data.colour),
        role: "img",
        "aria-label": curveWords(name, all, newest),
      },
      s(
        "svg",
        { key: "lines", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
        resumesOf(all).map(({ point, attempt }) => drawResume(attempt, frame.x(point))),
        stretchesOf(all).map((part) => drawPath(part, name, frame)),
      ),
      h("span", {
        key: "dot",
        class: "st-dot",
        style: { left: `${frame.x(last) / 10}%`, top: `${frame.y(last.values[name])}%` },
      }),
    ),
    h(
      "div",
      { key: "words", class: "st-curve-words" },
      h("span", { key: "name", class: "st-muted" }, clean(name), " "),
      h("strong", { key: "last" }, amount(newest)),
      h("span", { key: "range", class: "st-muted" }, `${amount(frame.low)} – ${amount(frame.high)}`),
    ),
    thinnedWords(data.points),
  );
}

/** The points, and the progress of the job as one more if it is newer: all that a card shows is of one reading. */
export function upToDate(points, progress) {
  const last = points.at(-1);
  if (!last || !(progress?.at > last.at)) return points;
  const reported = Object.entries(progress.values ?? {}).filter(([name, value]) => value !== lastOf(points, name));
  if (!reported.length) return points;
  const { at, step } = progress;
  return [...points, { seq: last.seq + 1, at, step, attempt: last.attempt, values: Object.fromEntries(reported) }];
}

/** Says that reports came too fast to be kept, and how many are; nothing if all are. */
function thinnedWords(points) {
  const out = points.reduce((sum, point) => sum + (point.left_out ?? 0), 0);
  const kept = points.filter(hasNumbers).length;
  const words = `${amount(kept + out)} reports, thinned to ${amount(kept)}; the last and the best values are kept.`;
  return out > 0 && h("div", { key: "thinned", class: "st-muted", "data-testid": "curve-thinned" }, words);
}

/** Whether a point is a report of the program, as `has_numbers` of the API's points in Python. */
function hasNumbers({ of_checkpoint: ofCheckpoint, step, values }) {
  return !ofCheckpoint && (typeof step === "number" || Object.keys(values).length > 0);
}

function rank(name) {
  if (name === "loss") return 0;
  return name.includes("loss") ? 1 : 2;
}

function curveWords(name, points, last) {
  const first = points[0].values[name];
  const resumes = resumesOf(points).length;
  return `${clean(name)} from ${amount(first)} to ${amount(last)}${resumes ? `, resumed ${resumes} times` : ""}`;
}

function frameOf(points, name) {
  const values = points.map((point) => point.values[name]);
  const low = values.reduce((least, value) => Math.min(least, value));
  const high = values.reduce((most, value) => Math.max(most, value));
  const stepped = points.every((point) => Number.isFinite(point.step));
  const along = (point) => (stepped ? point.step : point.seq);
  const places = points.map(along);
  const from = places.reduce((least, value) => Math.min(least, value));
  const to = places.reduce((most, value) => Math.max(most, value));
  return {
    low,
    high,
    x: (point) => WIDTH * fraction(along(point), from, to),
    y: (value) => 6 + 88 * (1 - fraction(value, low, high)),
  };
}

/**
 * The points with a finite value. `stretch` counts the parts of the curve: a new one begins with each attempt, where
 * the steps go back, and after a value that is not finite.
 */
export function finiteOf(points, name) {
  const found = [];
  let stretch = 0;
  let step = null;
  let attempt;
  let broken = false;
  for (const point of points) {
    if (!Object.hasOwn(point.values, name)) continue;
    if (!Number.isFinite(point.values[name])) {
      broken = true;
      continue;
    }
    const goesBack = point.step !== null && step !== null && point.step < step;
    if (found.length && (broken || goesBack || point.attempt !== attempt)) stretch += 1;
    broken = false;
    step = point.step ?? step;
    attempt = point.attempt;
    found.push({ ...point, stretch });
  }
  return found;
}

/** The parts of a curve that are one line each, of points of `finiteOf`. */
export function stretchesOf(points) {
  return [...Map.groupBy(points, (point) => point.stretch).values()];
}

/** The last reported value of a metric, which may be one that is not finite. */
export function lastOf(points, name) {
  return points.findLast((point) => Object.hasOwn(point.values, name))?.values[name];
}

/** The points of each attempt. */
export function attemptsOf(points) {
  return [...Map.groupBy(points, (point) => point.attempt).values()];
}

function resumesOf(points) {
  return attemptsOf(points)
    .slice(1)
    .map((part) => ({ point: part[0], attempt: part[0].attempt }));
}

function drawResume(attempt, x) {
  return s(
    "line",
    { key: `resume ${attempt}`, class: "st-resume", x1: x, x2: x, y1: 0, y2: HEIGHT, "data-testid": "resume-mark" },
    s("title", {}, `Attempt ${attempt} resumed here`),
  );
}

function drawPath(part, name, frame) {
  const d = thinned(part, name)
    .map((point, place) => `${place ? "L" : "M"}${frame.x(point).toFixed(1)} ${frame.y(point.values[name]).toFixed(1)}`)
    .join("");
  return s("path", { key: `stretch ${part[0].stretch}`, class: "st-line", d: part.length === 1 ? `${d}h0.01` : d });
}

function thinned(points, name) {
  if (points.length <= MOST_POINTS) return points;
  const size = Math.ceil((2 * points.length) / MOST_POINTS);
  const kept = [];
  for (let from = 0; from < points.length; from += size) {
    const bucket = points.slice(from, from + size);
    const lowest = bucket.reduce((best, point) => (point.values[name] < best.values[name] ? point : best));
    const highest = bucket.reduce((best, point) => (point.values[name] > best.values[name] ? point : best));
    kept.push(...new Set([lowest, highest].sort((one, other) => one.seq - other.seq)));
  }
  return kept;
}
