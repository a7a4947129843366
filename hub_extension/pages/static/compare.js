/** Jobs side by side: their differences, their metrics in common plots, and the differences of their code. */

import { drawAcross } from "./jobs/across.js";
import { drawCode, drawDifferences } from "./jobs/differences.js";
import { drawMetricPlots } from "./jobs/metric_plots.js";
import { drawShapeFields, zoomOf } from "./jobs/shape_fields.js";
import {
  askNothing,
  boardPath,
  call,
  comparedIds,
  comparePath,
  followPool,
  persistently,
  section,
  showMessage,
  showTitle,
  site,
} from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { boardLink, emptyState } from "./visuals/base/glyphs.js";
import { distinctNames } from "./visuals/base/job_words.js";
import { oncePerFrame } from "./visuals/base/pace.js";
import { count } from "./visuals/base/words.js";
import { PLAIN } from "./visuals/charts/curve_shape.js";
import { curveNames } from "./visuals/charts/loss_curve.js";
import { renderOverlayChart } from "./visuals/charts/overlay_chart.js";
import { JobList } from "./visuals/live/job_list.js";
import { forkWords } from "./visuals/views/lineage.js";

const MOST_JOBS = 20;

const ids = comparedIds(window.location.search);
const shown = { differences: [], code: [], across: "step", shape: PLAIN, named: "" };
const redraw = oncePerFrame(draw);
const zoom = zoomOf(shown, redraw);
const page = document.getElementById("page");
const feed = followPool();
const compared = new JobList(feed, compare, () => false);

start();

async function start() {
  if (ids.length < 2 || ids.length > MOST_JOBS) {
    drawNone();
    return;
  }
  await compared.read();
  if (!compared.jobs) return;
  feed.watchList(compared, redraw);
  redraw();
}

/** Promises the comparison as a page of jobs, or null. */
async function compare() {
  try {
    const { jobs, ...found } = await persistently(() =>
      call("GET", `comparison?${new URLSearchParams({ jobs: ids.join(",") })}`),
    );
    Object.assign(shown, found);
    return { items: jobs };
  } catch (error) {
    page.removeAttribute("aria-busy");
    showMessage(error);
    if (!compared.jobs) patch(page, drawBack());
    return null;
  }
}

function drawNone() {
  askNothing();
  page.removeAttribute("aria-busy");
  const title =
    ids.length > MOST_JOBS
      ? `At most ${MOST_JOBS} jobs are compared at a time; these are ${ids.length}.`
      : "Two jobs or more are compared.";
  patch(
    page,
    drawBack(),
    emptyState(
      title,
      "Select them in ",
      h("a", { href: `${site.prefix}?show=all` }, "My jobs"),
      ", or filter the trials of a sweep on its page.",
    ),
  );
}

function drawBack() {
  return h("p", { key: "back" }, h("a", { href: site.prefix }, "← My jobs"));
}

function draw() {
  const { jobs } = compared;
  page.removeAttribute("aria-busy");
  showTitle(`Comparison of ${count(jobs.length, "job")}`);
  const without = (id) => comparePath(ids.filter((other) => other !== id));
  patch(
    page,
    drawBack(),
    section("differences", "What differs", drawDifferences({ ...shown, jobs }, jobs.length > 2 ? without : null)),
    section("curves", "Metrics", drawMetrics(jobs)),
    section("code", "Code", drawCode({ ...shown, jobs })),
  );
}

function drawMetrics(jobs) {
  const { across, shape } = shown;
  const shownNames = distinctNames(jobs);
  const nameOf = (id) => shownNames[jobs.findIndex((job) => job.id === id)] ?? null;
  const runs = jobs.map((job, place) => ({
    place,
    name: shownNames[place],
    origin: forkWords(job, nameOf),
    points: feed.curves.of(job),
    started: job.started,
  }));
  const names = curveNames(runs.flatMap((run) => run.points));
  if (!names.length)
    return emptyState(
      "None of these jobs has reported a metric yet.",
      "A training reports them with job.report(step=…, loss=…); the curves appear here as they come.",
    );
  const counts = new Map(
    names.map((name) => [
      name,
      runs.filter((run) => run.points.some((point) => Object.hasOwn(point.values, name))).length,
    ]),
  );
  const common = names.toSorted((one, other) => counts.get(other) - counts.get(one));
  return [
    counts.get(common[0]) < 2 &&
      h(
        "p",
        { key: "none", class: "st-muted", "data-testid": "none-in-common" },
        "No metric was reported by two of these jobs.",
      ),
    h(
      "div",
      { key: "tools", class: "st-metric-tools" },
      drawAcross(shown, redraw),
      boardLink(boardPath(jobs.map(({ id }) => id)), "compared-tensorboard"),
    ),
    drawShapeFields(shown, redraw),
    drawMetricPlots(common, shown, redraw, (node, name) =>
      renderOverlayChart(node, { runs, name, across, shape, zoom }),
    ),
  ];
}
