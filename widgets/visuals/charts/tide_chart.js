/**
 * The tide chart: GPUs over time stacked by project, hatched if borrowed, and lines at the quota of each time and at the
 * GPUs that the pool had.
 */

import { h, memory, patch, s } from "../base/dom.js";
import { colourOf, emptyState, stage } from "../base/glyphs.js";
import { amount, clean, clock, count } from "../base/words.js";
import { ticks } from "./scale.js";

const TIDE_HEIGHT = 208;
const DEFAULT_WIDTH = 640;
const GRID_LINES = 4;
const LEAST_SPAN_S = 60;
const SECONDS_SHOWN_S = 300;
let tides = 0;

/**
 * Draws the tide chart.
 * @param data `history`: History; `colours`: colour by project name;
 * `summary` and `timeWords(at)` if the usual words do not fit
 */
export function renderTideChart(element, data) {
  drawTide(element, { ...data, history: trimmed(withWhole(data.history)) });
}

/** The history with all quotas and the GPUs of the pool at each point; without recorded ones those of now. */
function withWhole(history) {
  let quotas = history.points.some((point) => point.quotas) ? {} : history.quotas;
  const points = history.points.map((point) => {
    if (point.quotas) quotas = { ...quotas, ...point.quotas };
    return { ...point, quotas, total: point.total ?? history.total };
  });
  return { ...history, points };
}

/** The quota of a project at a point, over all types; Infinity without one that is known. */
function quotaAt(point, name) {
  return point.quotas[name] ?? Infinity;
}

function drawTide(element, data) {
  const state = memory(element, { only: null, at: null, id: (tides += 1), width: 0, data: null });
  if (state.data === null) watchWidth(element, state);
  state.data = data;
  const { history } = data;
  stage(element, "st-tide");
  const names = namesOf(history);
  if (!names.length) {
    patch(
      element,
      emptyState("Nothing has run in this time yet.", "Submit a job from a notebook and its tide shows here."),
    );
    return;
  }
  if (state.only !== null && !names.includes(state.only)) state.only = null;
  const shown = state.only === null ? names : [state.only];
  const scene = sceneOf(history, shown, state, data.colours);
  const again = () => drawTide(element, state.data);
  patch(
    element,
    h(
      "p",
      { key: "reading", class: "st-tide-reading", "data-testid": "tide-reading" },
      readingWords(data, names, state),
    ),
    h(
      "div",
      { key: "frame", class: "st-tide-frame" },
      drawScale(scene),
      drawWater(scene, state, again, data.summary ?? tideWords(history)),
      h(
        "div",
        { key: "times", class: "st-tide-times" },
        axisWords(scene, data.timeWords).map((words) => h("span", { key: words }, words)),
      ),
    ),
    drawNames(names, data.colours, state, again),
  );
}

/** The words of the begin, the middle and the end of the chart, each once. */
function axisWords({ start, length, history }, timeWords) {
  const wordsOf = timeWords ?? ((at) => clock(at, history.end, length < SECONDS_SHOWN_S));
  return [...new Set([0, 0.5, 1].map((part) => wordsOf(start + part * length)))];
}

function watchWidth(element, state) {
  new ResizeObserver(() => {
    const width = element.querySelector(".st-tide-water")?.clientWidth ?? 0;
    if (width && width !== state.width) {
      state.width = width;
      drawTide(element, state.data);
    }
  }).observe(element);
}

/** The history without a long empty beginning: a young pool fills the chart too. */
function trimmed(history) {
  const { start, end, points } = history;
  const first = points.find((point) => Object.values(point.held).some((gpus) => gpus > 0))?.at ?? start;
  if (first - start < (end - start) / 2) return history;
  const begin = Math.max(start, end - Math.max(LEAST_SPAN_S, 1.15 * (end - first)));
  const { quotas, total } = points.findLast((point) => point.at <= begin) ?? points[0];
  const shown = [{ at: begin, held: {}, borrowed: {}, quotas, total }, ...points.filter((point) => point.at > begin)];
  const over = (gpusOf) =>
    shown.reduce((sum, point, place) => sum + gpusOf(point) * ((shown[place + 1]?.at ?? end) - point.at), 0);
  const held = over((point) => Object.values(point.held).reduce((sum, gpus) => sum + gpus, 0));
  return {
    ...history,
    start: begin,
    points: shown,
    share_held:
      held /
      Math.max(
        1,
        over((point) => point.total),
      ),
  };
}

function namesOf(history) {
  const holding = new Set(
    history.points.flatMap((point) => Object.keys(point.held).filter((name) => point.held[name] > 0)),
  );
  const known = Object.keys(history.quotas).filter((name) => holding.has(name));
  return [...known, ...[...holding].filter((name) => !known.includes(name)).sort()];
}

function sceneOf(history, names, state, colours) {
  const width = state.width || DEFAULT_WIDTH;
  const length = Math.max(1, history.end - history.start);
  const quotas = names.length === 1 ? history.points.map((point) => quotaAt(point, names[0])) : [];
  const most = history.points.reduce(
    (top, point) =>
      Math.max(
        top,
        names.reduce((sum, name) => sum + (point.held[name] ?? 0), 0),
      ),
    0,
  );
  const had = Math.max(...history.points.map((point) => point.total));
  const needed = Math.max(most, ...quotas.filter(Number.isFinite));
  const top = Math.max(had, needed > had ? wholeTop(needed) : 0) || 1;
  return {
    history,
    names,
    colours,
    width,
    length,
    top,
    start: history.start,
    points: thinnedHistory(history.points, length / width),
    x: (at) => (width * (Math.min(Math.max(at, history.start), history.end) - history.start)) / length,
    y: (gpus) => TIDE_HEIGHT * (1 - gpus / top),
  };
}

/** The last mark above a number of GPUs; less than one has marks of its own. */
function wholeTop(gpus) {
  return gpus > 1 ? Math.ceil(gpus / stepOf(gpus)) * stepOf(gpus) : gpus;
}

function stepOf(top) {
  return Math.max(1, Math.ceil(top / GRID_LINES));
}

function thinnedHistory(points, resolution) {
  const kept = [];
  for (const point of points) {
    if (kept.length && point.at - kept.at(-1).at < resolution) kept.pop();
    kept.push(point);
  }
  return kept;
}

function drawScale(scene) {
  const step = stepOf(scene.top);
  const whole = Array.from({ length: Math.floor(scene.top / step) + 1 }, (_, place) => place * step);
  const marks = whole.length > 1 ? whole : ticks(0, scene.top).filter((gpus) => gpus <= scene.top);
  return h(
    "div",
    { key: "scale", class: "st-tide-scale", "aria-hidden": "true" },
    marks.map((gpus) => h("span", { key: gpus, style: { top: `${(100 * scene.y(gpus)) / TIDE_HEIGHT}%` } }, gpus)),
  );
}

function drawWater(scene, state, again, summary) {
  const { history } = scene;
  const read = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    state.at = scene.start + (scene.length * (event.clientX - box.left)) / box.width;
    again();
  };
  const leave = () => {
    state.at = null;
    again();
  };
  const hatch = (name) => `st-hatch-${state.id}-${scene.names.indexOf(name)}`;
  return h(
    "div",
    {
      key: "water",
      class: "st-tide-water",
      role: "img",
      "aria-label": summary,
      on: { pointermove: read, pointerleave: leave },
    },
    s(
      "svg",
      { key: "svg", viewBox: `0 0 ${scene.width} ${TIDE_HEIGHT}`, "aria-hidden": "true" },
      s(
        "defs",
        { key: "defs" },
        scene.names.map((name) => drawHatch(hatch(name), scene.colours[name])),
      ),
      drawBands(scene, hatch),
      history.points.some((point) => point.total > 0) &&
        s("path", { key: "total", class: "st-tide-total", d: totalLine(scene) }),
      state.at !== null &&
        s("line", {
          key: "cursor",
          class: "st-tide-cursor",
          x1: scene.x(state.at),
          x2: scene.x(state.at),
          y1: 0,
          y2: TIDE_HEIGHT,
        }),
    ),
  );
}

/** The line at the GPUs that the pool had at each time, from the first time on at which it had some. */
function totalLine({ history, x, y }) {
  const points = history.points.slice(history.points.findIndex((point) => point.total > 0));
  const steps = points.map((point) => `H ${x(point.at)} V ${y(point.total)}`);
  return `M ${x(points[0].at)} ${y(points[0].total)} ${steps.join(" ")} H ${x(history.end)}`;
}

function drawHatch(id, colour) {
  return s(
    "pattern",
    {
      key: id,
      id,
      width: 7,
      height: 7,
      patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)",
      style: colourOf(colour),
    },
    s("rect", { width: 7, height: 7, fill: "var(--st-colour)", "fill-opacity": 0.18 }),
    s("rect", { width: 3, height: 7, fill: "var(--st-colour)" }),
  );
}

function drawBands(scene, hatch) {
  const below = scene.points.map(() => 0);
  return scene.names.map((name) => {
    const held = scene.points.map((point) => point.held[name] ?? 0);
    const floor = [...below];
    const borrowed = scene.points.map((point) => borrowedAt(point, name));
    const line = floor.map((gpus, place) => gpus + held[place] - borrowed[place]);
    held.forEach((gpus, place) => {
      below[place] += gpus;
    });
    const quotas = scene.points.map((point) => quotaAt(point, name));
    const alone = scene.names.length === 1;
    const levels = line.map((gpus, place) => quotaLevel(gpus, held[place], borrowed[place], quotas[place], alone));
    return s(
      "g",
      { key: name, style: colourOf(scene.colours[name]) },
      s("path", { key: "own", d: area(scene, floor, line), fill: "var(--st-colour)" }),
      s("path", {
        key: "borrowed",
        d: area(scene, line, below),
        fill: `url(#${hatch(name)})`,
        "data-testid": "tide-borrowed",
      }),
      s("path", { key: "edge", class: "st-tide-edge", d: outline(scene, below) }),
      s("path", { key: "quota", class: "st-tide-quota", "data-testid": "tide-quota", d: quotaLine(scene, levels) }),
    );
  });
}

function steps(scene, levels) {
  return scene.points.flatMap((point, place) => {
    const from = scene.x(point.at);
    const to = scene.x(scene.points[place + 1]?.at ?? scene.history.end);
    const y = scene.y(levels[place]);
    return [
      [from, y],
      [to, y],
    ];
  });
}

function trace(places) {
  return places.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

function area(scene, floor, roof) {
  if (roof.every((gpus, place) => gpus <= floor[place])) return "";
  return `${trace([...steps(scene, roof), ...steps(scene, floor).reverse()])}Z`;
}

function outline(scene, levels) {
  return trace(steps(scene, levels));
}

/**
 * How high the quota line is at a point, null for none. GPUs held within the quota end at `line`: with borrowed ones the
 * quota of their types ends there, also if that of other types is unused.
 */
function quotaLevel(line, held, borrowed, quota, alone) {
  if (!Number.isFinite(quota)) return null;
  if (borrowed > 0) return alone || held > borrowed ? line : null;
  if (alone) return quota;
  return quota > 0 && held >= quota ? line : null;
}

function quotaLine(scene, levels) {
  const stretches = [];
  levels.forEach((level, place) => {
    if (level === null || place === levels.length - 1) return;
    const from = place > 0 && levels[place - 1] === level ? stretches.pop().from : scene.points[place].at;
    stretches.push({ from, to: scene.points[place + 1].at, level });
  });
  return stretches
    .map(({ from, to, level }) => `M${scene.x(from).toFixed(1)} ${scene.y(level).toFixed(1)}H${scene.x(to).toFixed(1)}`)
    .join("");
}

function drawNames(names, colours, state, again) {
  const choose = (name) => () => {
    state.only = state.only === name ? null : name;
    again();
  };
  return h(
    "div",
    { key: "names", class: "st-tide-names", role: "group", "aria-label": "Show one project" },
    names.map((name) =>
      h(
        "button",
        { key: name, type: "button", "aria-pressed": String(state.only === name), on: { click: choose(name) } },
        h("span", { class: "st-key st-solid", style: colourOf(colours[name]), "aria-hidden": "true" }),
        ` ${clean(name)}`,
      ),
    ),
  );
}

function borrowedAt(point, name) {
  return point.borrowed[name] ?? 0;
}

function readingWords({ history, summary, timeWords }, names, state) {
  if (state.at === null) return summary ?? tideWords(history);
  const point = history.points.findLast(({ at }) => at <= state.at) ?? history.points[0];
  const parts = names
    .filter((name) => point.held[name] > 0)
    .map((name) => {
      const borrowed = borrowedAt(point, name);
      return `${clean(name)} ${amount(point.held[name])}${borrowed ? ` (${amount(borrowed)} borrowed)` : ""}`;
    });
  return `${timeWords?.(state.at) ?? clock(state.at, history.end)} · ${parts.join(", ") || "none held"}`;
}

function tideWords(history) {
  const used = Number.isFinite(history.share_used) ? `, ${Math.round(100 * history.share_used)} % of that used` : "";
  const totals = history.points.map((point) => point.total).filter((total) => total > 0);
  const [least, most] = [Math.min(...totals, history.total), Math.max(...totals, history.total)];
  const gpus = least < most ? `${amount(least)} to ${count(most, "GPU")}` : count(most, "GPU");
  return `${Math.round(100 * history.share_held)} % of ${gpus} held over this time${used}`;
}
