/** The metric of trials over their parameters: parallel coordinates of several parameters, a scatter plot of one. */

import { h, memory, patch, s } from "../base/dom.js";
import { colourOf, stage } from "../base/glyphs.js";
import { trialWords } from "../base/sweep_words.js";
import { tips } from "../base/tip.js";
import { parameterNames } from "../base/trials.js";
import { amount, clean, count } from "../base/words.js";
import { axisOf, differingParameters } from "./parameter_axes.js";

const MOST_AXES = 7;
const MOST_LINES = 500;
const FAINTEST = 0.3;
/** Width of a digit of a mark. */
const DIGIT_REM = 0.48;

/**
 * Draws the chart; nothing if fewer than two trials have a value, or if no parameter differs among them.
 * @param data `rows`: list of TrialRow; `metric`: its name; `goal`: "minimize", "maximize" or ""; `best`: number of the trial
 *   that is marked, which a running trial may surpass; `colour`: of the project
 */
export function renderParameterChart(element, data) {
  const drawn = memory(element, {});
  if (
    drawn.rows === data.rows &&
    drawn.metric === data.metric &&
    drawn.best === data.best &&
    drawn.colour === data.colour
  )
    return;
  Object.assign(drawn, data);
  stage(element, "st-parameters");
  tips(element);
  const chart = chartOf(data);
  patch(element, chart && drawChart(chart, data));
}

function chartOf({ rows, metric, goal, best }) {
  const sign = goal === "maximize" ? -1 : 1;
  const valued = rows.filter(({ value, parameters }) => Number.isFinite(value) && parameters);
  const ranked = valued
    .toSorted(
      (one, other) =>
        (other.trial === best) - (one.trial === best) || sign * (one.value - other.value) || one.trial - other.trial,
    )
    .slice(0, MOST_LINES);
  const parameters = differingParameters(ranked, parameterNames(ranked));
  if (ranked.length < 2 || !parameters.length) return null;
  const values = ranked.map(({ value }) => value);
  const own = { name: metric, values, axis: axisOf(values) ?? levelAxis(values[0]) };
  const shown = parameters.slice(0, MOST_AXES);
  return { ranked, best, own, shown, left: parameters.length - shown.length, hidden: valued.length - ranked.length };
}

function levelAxis(value) {
  return { place: () => 0.5, marks: [{ at: 0.5, words: amount(value) }], logarithmic: false };
}

function drawChart(chart, { colour, goal }) {
  const { ranked, best, own, shown, left, hidden } = chart;
  const single = shown.length === 1;
  const what = single
    ? `${clean(own.name)} by ${clean(shown[0].name)}`
    : `${shown.map(({ name }) => clean(name)).join(", ")} and ${clean(own.name)}`;
  const label = `${what} of ${count(ranked.length, "trial")}${ranked[0].trial === best ? `; the best is ${trialWords(ranked[0])}, with ${amount(ranked[0].value)}` : ""}`;
  const notes = [
    left > 0 && `${count(left, "more parameter")} left out`,
    hidden > 0 && `${goal ? "the best " : ""}${amount(ranked.length)} of ${count(ranked.length + hidden, "trial")}`,
  ].filter(Boolean);
  const style = {
    "--st-axes": shown.length + 1,
    "--st-mark": `${widthOf(own)}rem`,
    "--st-begin": `${widthOf(shown[0])}rem`,
  };
  return h(
    "figure",
    { key: "figure", class: "st-parameters-figure", style: colourOf(colour) },
    h("figcaption", { key: "name", class: "st-muted" }, what, notes.length > 0 && ` (${notes.join("; ")})`),
    single
      ? h(
          "div",
          { key: "plot", class: "st-scatter", role: "img", "aria-label": label, "data-testid": "sweep-scatter", style },
          drawScatter(chart),
        )
      : h(
          "div",
          {
            key: "scroll",
            class: "st-parallel-scroll",
            tabindex: 0,
            role: "region",
            "aria-label": "Chart of trials",
            style,
          },
          h(
            "div",
            { key: "plot", class: "st-parallel", role: "img", "aria-label": label, "data-testid": "sweep-parallel" },
            drawParallel(chart),
          ),
        ),
  );
}

/** The width of the longest mark of an axis, in rem. */
function widthOf({ axis }) {
  return DIGIT_REM * Math.max(...axis.marks.map(({ words }) => words.length));
}

/** From 1 for the best to 0 for the worst. */
function goodness(index, { length }) {
  return length > 1 ? 1 - index / (length - 1) : 1;
}

function drawParallel({ ranked, best, own, shown }) {
  const axes = [...shown, own];
  const across = (place) => place / (axes.length - 1);
  const lines = ranked.map((row, index) => ({ row, index, d: lineThrough(axes, index, across) })).reverse();
  return [
    s(
      "svg",
      { key: "lines", viewBox: "0 0 1000 100", preserveAspectRatio: "none", "aria-hidden": "true" },
      axes.map(({ name }, place) =>
        s("line", {
          key: `axis ${name} ${place}`,
          class: "st-axis",
          x1: 1000 * across(place),
          x2: 1000 * across(place),
          y1: 0,
          y2: 100,
        }),
      ),
      lines.map(({ row, index, d }) =>
        s("path", {
          key: row.trial,
          class: `st-trial-line${row.trial === best ? " st-best" : ""}`,
          style: { opacity: FAINTEST + (1 - FAINTEST) * goodness(index, ranked) ** 2 },
          d,
          "data-tip": tipOf(row, own.name),
          "data-testid": "trial-line",
        }),
      ),
    ),
    axes.map((axis, place) =>
      drawAxis(axis, across(place), { 0: " st-first", [axes.length - 1]: " st-last" }[place] ?? ""),
    ),
  ];
}

/** A trial that lacks a parameter has a gap there. */
function lineThrough(axes, index, across) {
  let broken = true;
  const parts = axes.map(({ axis, values }, place) => {
    const at = values[index] === undefined ? null : axis.place(values[index]);
    const command = broken ? "M" : "L";
    broken = at === null;
    return broken ? "" : `${command}${(1000 * across(place)).toFixed(1)} ${(100 - 100 * at).toFixed(1)}`;
  });
  return parts.join("");
}

function drawAxis({ name, axis }, across, side) {
  const words = `${clean(name)}${axis.logarithmic ? " (log)" : ""}`;
  return h(
    "div",
    {
      key: `axis ${across}`,
      class: `st-axis-words${side}`,
      style: { left: `${100 * across}%` },
      "aria-hidden": "true",
    },
    h("span", { key: "name", class: "st-axis-title", title: words }, words),
    axis.marks.map(({ at, words: mark }) =>
      h(
        "span",
        { key: `${at} ${mark}`, class: "st-axis-mark", style: { top: `${100 - 100 * at}%` }, title: mark },
        mark,
      ),
    ),
  );
}

function drawScatter({ ranked, best, own, shown: [parameter] }) {
  return [
    h(
      "span",
      { key: "upright", class: "st-axis-title", "aria-hidden": "true" },
      `${clean(own.name)}${own.axis.logarithmic ? " (log)" : ""}`,
    ),
    own.axis.marks.map(({ at, words }) =>
      h(
        "span",
        { key: `y ${at}`, class: "st-axis-mark st-left", style: { top: `${100 - 100 * at}%` }, "aria-hidden": "true" },
        words,
      ),
    ),
    ranked
      .map((row, index) => ({ row, index, x: parameter.axis.place(parameter.values[index]) }))
      .filter(({ x }) => x !== null)
      .reverse()
      .map(({ row, index, x }) =>
        h("span", {
          key: row.trial,
          class: `st-trial-dot${row.trial === best ? " st-best" : ""}`,
          style: {
            left: `${100 * x}%`,
            top: `${100 - 100 * own.axis.place(row.value)}%`,
            opacity: 0.25 + 0.75 * goodness(index, ranked),
          },
          "data-tip": tipOf(row, own.name),
          "data-testid": "trial-dot",
        }),
      ),
    parameter.axis.marks.map(({ at, words }) =>
      h(
        "span",
        {
          key: `x ${at} ${words}`,
          class: "st-axis-mark st-below",
          style: { left: `${100 * at}%`, "--st-marks": parameter.axis.marks.length },
          title: words,
          "aria-hidden": "true",
        },
        words,
      ),
    ),
    h(
      "span",
      { key: "flat", class: "st-axis-title st-below", "aria-hidden": "true" },
      `${clean(parameter.name)}${parameter.axis.logarithmic ? " (log)" : ""}`,
    ),
  ];
}

function tipOf(row, metric) {
  return `${trialWords(row)}\n${clean(metric)} ${amount(row.value)}`;
}
