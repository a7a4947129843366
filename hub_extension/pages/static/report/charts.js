/** The charts of a report: its tide, and a bar for each project. */

import { h } from "../visuals/base/dom.js";
import { clean } from "../visuals/base/words.js";
import { barScale, projectBar, standingWords } from "../visuals/charts/project_bar.js";
import { renderTideChart } from "../visuals/charts/tide_chart.js";
import { intervalsOf } from "./period.js";
import { rounded } from "./rounding.js";

const MOST_BARS = 12;
const WORKSPACES = "no project (workspaces)";

/** The sums of each project, and of what belongs to none, over the intervals of a report by project and time, the largest first. */
export function projectsOf(report, colours) {
  const found = new Map();
  for (const row of report.rows) {
    const project = row.by.project || WORKSPACES;
    const sums = found.get(project) ?? { held: 0, borrowed: 0, lent: 0, quota: undefined };
    sums.held += row.gpu_hours_held;
    sums.borrowed += row.gpu_hours_borrowed;
    sums.lent += row.gpu_hours_lent ?? 0;
    if (row.gpu_hours_quota !== null) sums.quota = (sums.quota ?? 0) + row.gpu_hours_quota;
    found.set(project, sums);
  }
  const named = [...found].map(([name, sums]) => ({ name, colour: colours[name] ?? null, waiting: 0, ...sums }));
  return named.sort((one, other) => other.held - one.held || (one.name < other.name ? -1 : 1));
}

/** The tide of a report by project and time: the mean number of GPUs held in each interval, borrowed ones hatched. */
export function drawTide(report, column, projects, now) {
  const intervals = withoutBeginning(intervalsOf(report, column, now), report, column);
  const points = new Map(
    intervals.map(({ name, start, end }) => [
      name,
      { at: start, hours: (end - start) / 3600, held: {}, borrowed: {}, name },
    ]),
  );
  for (const row of report.rows) {
    const point = points.get(row.by[column]);
    if (!point || !row.gpu_hours_held) continue;
    const project = row.by.project || WORKSPACES;
    point.held[project] = mean(row.gpu_hours_held, point);
    point.borrowed[project] = mean(row.gpu_hours_borrowed, point);
  }
  const history = {
    start: intervals[0]?.start ?? 0,
    end: intervals.at(-1)?.end ?? 0,
    points: [...points.values()],
    quotas: Object.fromEntries(projects.map(({ name }) => [name, Infinity])),
    total: 0,
    share_held: 0,
  };
  const timeWords = (at) => (intervals.findLast(({ start }) => start <= at) ?? intervals[0]).name;
  const colours = Object.fromEntries(projects.map(({ name, colour }) => [name, colour]));
  const summary = `Mean number of GPUs held in each ${column}, in UTC; borrowed ones hatched`;
  return h("div", { key: "tide", draw: (node) => renderTideChart(node, { history, colours, summary, timeWords }) });
}

/** The intervals without a long empty beginning: a young pool fills the chart too. */
function withoutBeginning(intervals, report, column) {
  const holding = new Set(report.rows.filter((row) => row.gpu_hours_held > 0).map((row) => row.by[column]));
  const first = intervals.findIndex(({ name }) => holding.has(name));
  return first >= intervals.length / 2 ? intervals.slice(first) : intervals;
}

function mean(hours, point) {
  return Number((hours / point.hours).toPrecision(3));
}

/** A bar for each of the projects that held most, in GPU-hours, with the quota as a line and the lent hours dotted. */
export function drawBars(projects) {
  const holding = projects.filter(({ held }) => held > 0).slice(0, MOST_BARS);
  const shown = holding.map((project) => ({
    ...project,
    held: rounded(project.held),
    borrowed: rounded(project.borrowed),
    lent: rounded(project.lent),
    quota: project.quota === undefined ? undefined : rounded(project.quota),
  }));
  const scale = barScale(holding, 0);
  return h(
    "div",
    { key: "bars", class: "st-report-bars", "data-testid": "report-bars" },
    shown.map((project) => [
      h("div", { key: `name ${project.name}`, class: "st-report-name" }, clean(project.name)),
      projectBar(project, scale, `bar ${project.name}`, false),
      h("div", { key: `words ${project.name}`, class: "st-muted st-report-words" }, standingWords(project)),
    ]),
  );
}
