/** One job: its card, its life, its curves, its attempts, its log and its source. */

import { drawAcross } from "./jobs/across.js";
import { drawEvents } from "./jobs/events.js";
import { drawAttempts, drawFacts, drawSource } from "./jobs/job_parts.js";
import { curvesFirst, drawMetricPlots } from "./jobs/metric_plots.js";
import { drawShapeFields, zoomOf } from "./jobs/shape_fields.js";
import { TrackerLinks } from "./jobs/tracker_links.js";
import { UseCharts } from "./jobs/use_charts.js";
import { OwnRequests } from "./requests/own_requests.js";
import { wishOf } from "./requests/quota_wish.js";
import {
  boardPath,
  call,
  followPool,
  jobPath,
  openFile,
  persistently,
  section,
  showMessage,
  showTitle,
  site,
} from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { environmentFacts } from "./visuals/base/environment.js";
import { emptyState, isFinal } from "./visuals/base/glyphs.js";
import { wordsLast } from "./visuals/base/job_words.js";
import { whileInSight } from "./visuals/base/pace.js";
import { agoLasts, clean, clockNow } from "./visuals/base/words.js";
import { PLAIN } from "./visuals/charts/curve_shape.js";
import { curveNames } from "./visuals/charts/loss_curve.js";
import { renderMetricChart } from "./visuals/charts/metric_chart.js";
import { CheckpointBrowser } from "./visuals/live/checkpoint_browser.js";
import { drawLiveCard } from "./visuals/live/job_view.js";
import { RerunEditor } from "./visuals/live/rerun_editor.js";
import { OutputBrowser } from "./visuals/outputs/output_browser.js";
import { drawArguments } from "./visuals/views/argument_list.js";
import { renderLog } from "./visuals/views/log_view.js";

const LOOK_AGAIN_MS = 30_000;
const LOG_TAIL = 256 * 1024;
const path = `jobs/${encodeURIComponent(site.job)}`;

/** The sections below the metrics, which a list of all of many metrics leads to. */
const BELOW = { log: "Log", outputs: "Outputs", attempts: "Attempts", what: "What it runs" };

const shown = { across: "step", shape: PLAIN, named: "", whole: false };
let view = null;
const redraw = () => view?.draw();
const zoom = zoomOf(shown, redraw);
const outputs = new OutputBrowser(call, openFile, path, redraw, { board: boardPath([site.job]) });
const trackers = new TrackerLinks(path, redraw);
const use = new UseCharts(path, redraw);
const openJob = ({ id }) => window.location.assign(jobPath(id));
const editor = new RerunEditor(call, site.job, redraw, openJob);
const checkpoints = new CheckpointBrowser(call, path, redraw, new RerunEditor(call, site.job, redraw, openJob));
const requests = site.admin ? null : new OwnRequests(redraw);
let live = null;

start();

/** Starts the page. The stream of one job has no events of a sweep's trials, nor of the pool. */
async function start() {
  const known = await persistently(() => call("GET", path)).catch(drawMissing);
  if (!known) return;
  const feed = followPool(known.trials ? null : site.job);
  ({ live } = feed.watchJob(site.job, redraw, { known, isWhole: true, tail: LOG_TAIL }));
  feed.watchPool(redraw);
  feed.fetchPool();
  if (requests && feed.isOwn(known) && !isFinal(known.state)) {
    requests.read();
    feed.watchNotices(({ event }) => event === "request" && requests.read());
  }
  view = whileInSight(document.getElementById("page"), draw, lasts);
  setInterval(() => document.hidden || live.look(), LOOK_AGAIN_MS);
}

/** How long the drawn words stay true while nothing happens, in seconds. Those about events say how long ago they were. */
function lasts() {
  const { job, problem } = live;
  if (problem?.code === "deleted") return null;
  const now = clockNow();
  return wordsLast(job, now) ?? agoLasts(job.ended, now);
}

function drawMissing(error) {
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  page.replaceChildren();
  if (error.status !== 404) return showMessage(error);
  const gone = error.code === "deleted";
  document.querySelector("h1").textContent = gone ? "Deleted" : "Not found";
  const jobs = h("a", { href: site.prefix }, "My jobs");
  return patch(page, emptyState(clean(error.what), error.hint && `${clean(error.hint)} `, jobs));
}

function draw() {
  const { job, problem } = live;
  if (problem?.code === "deleted") return drawMissing(problem);
  const now = clockNow();
  showTitle(clean(job.name) || job.id);
  document.getElementById("page").removeAttribute("aria-busy");
  patch(
    document.getElementById("page"),
    h(
      "p",
      { key: "back" },
      h("a", { href: site.prefix }, "← My jobs"),
      job.sweep && [
        " · ",
        h("a", { key: "sweep", href: jobPath(job.sweep), "data-testid": "sweep-link" }, "its sweep"),
      ],
    ),
    h("h2", { key: "now", class: "st-hidden" }, "Now"),
    job.trials ? drawSweep(job, now) : drawJob(job, now),
    Object.keys(job.arguments).length > 0 && section("arguments", "Arguments", drawArguments(job)),
    section("what", job.trials ? "What each trial runs" : "What it runs", drawSource(job)),
    job.environment && section("environment", "Environment", environmentFacts(job.environment, job.options.image)),
    section("facts", job.trials ? "What each trial asks for" : "What it asked for", drawFacts(job, now)),
  );
}

function drawCard(more = {}) {
  return h("article", { key: "card", class: "st-large", draw: (node) => drawLiveCard(node, live, editor, more) });
}

/** What its user may ask for while the job waits for a quota. */
function drawRequests(job, now) {
  const { feed } = live;
  if (!requests || !feed.isOwn(job) || isFinal(job.state)) return null;
  const project = feed.pool?.projects.find(({ name }) => name === job.project);
  const drawn = requests.drawWish(feed.pool, job, wishOf(job, project), now);
  return drawn && section("requests", "More quota", drawn);
}

function belowMetrics(job) {
  return Object.keys(job.arguments).length > 0 ? { ...BELOW, arguments: "Arguments" } : BELOW;
}

function drawSweep(job, now) {
  return [drawCard(), drawRequests(job, now), section("events", "What happened", drawEvents(job, now))];
}

function drawJob(job, now) {
  const { log, points } = live;
  const { colour } = live.feed.about(job.project);
  const { started } = job;
  const { across, shape } = shown;
  const names = curvesFirst(curveNames(points), points);
  const useCharts = use.draw(job, colour, shown, zoom);
  const drawMetric = (node, name) => renderMetricChart(node, { points, name, colour, across, started, shape, zoom });
  use.follow(job);
  outputs.follow(job);
  checkpoints.follow(job);
  return [
    drawCard({ results: outputs }),
    drawRequests(job, now),
    names.length + useCharts.length > 0 &&
      section("curves", "Metrics", [
        names.length > 0 && [drawAcross(shown, redraw), trackers.draw(), drawShapeFields(shown, redraw)],
        drawMetricPlots(names, shown, redraw, drawMetric, useCharts, belowMetrics(job)),
      ]),
    section("log", "Log", h("div", { draw: (node) => renderLog(node, log.data(job), log.actions) })),
    section("outputs", "Outputs", outputs.draw(job)),
    section("checkpoints", "Checkpoints", checkpoints.draw(live.feed.isOwn(job))),
    section("attempts", "Attempts", drawAttempts(job, now)),
    section("events", "What happened", drawEvents(job, now)),
  ];
}
