/** One job: its card, its life, its curves, its attempts, its log, and what it runs. */

import { CurveKeeper } from "./visuals/live/curves.js";
import { RerunEditor } from "./visuals/live/rerun_editor.js";
import { TrialKeeper } from "./visuals/live/trial_keeper.js";
import { OutputBrowser } from "./visuals/outputs/output_browser.js";
import { drawEvents } from "./jobs/events.js";
import { TrackerLinks } from "./jobs/tracker_links.js";
import { UseCharts } from "./jobs/use_charts.js";
import { drawAttempts, drawFacts, drawSource } from "./jobs/job_parts.js";
import { LogKeeper } from "./visuals/live/log_keeper.js";
import { call, calmly, comparePath, followEvents, jobPath, oncePerFrame, openFile, showMessage, site } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { environmentFacts } from "./visuals/base/environment.js";
import { emptyState } from "./visuals/base/glyphs.js";
import { renderWorkCard } from "./visuals/views/work_card.js";
import { waits } from "./visuals/base/job_words.js";
import { renderLog } from "./visuals/views/log_view.js";
import { curveNames } from "./visuals/charts/loss_curve.js";
import { renderMetricChart } from "./visuals/charts/metric_chart.js";
import { clean, clockNow } from "./visuals/base/words.js";

const MOST_CURVES = 12;
const LOOK_AGAIN_S = 30;
const path = `jobs/${encodeURIComponent(site.job)}`;

const shown = { job: null, colour: null, simulated: false, notice: null, across: "step" };
const redraw = oncePerFrame(draw);
const curves = new CurveKeeper(call, redraw);
const log = new LogKeeper(call, path, redraw);
const outputs = new OutputBrowser(call, openFile, path, redraw);
const trackers = new TrackerLinks(path, redraw);
const use = new UseCharts(path, redraw);
const editor = new RerunEditor(call, site.job, redraw, ({ id }) => window.location.assign(jobPath(id)));
const trials = new TrialKeeper(call, site.job, redraw);
const reread = calmly(read, 0.5);
let events = 0;

start();

async function start() {
  try {
    const pool = await call("GET", "pool");
    shown.simulated = pool.simulated;
    shown.job = await call("GET", path);
    shown.colour = pool.projects.find((project) => project.name === shown.job.project)?.colour ?? null;
  } catch (error) {
    drawMissing(error);
    return;
  }
  redraw();
  if (shown.job.trials) followSweep();
  else followJob();
  setInterval(redraw, 1000);
  setInterval(lookAgain, 1000 * LOOK_AGAIN_S);
}

function followJob() {
  followEvents({ job: hearEvent, progress: hearProgress, usage: hearUsage, log: () => log.read(), again: readAll }, site.job);
  log.read();
  use.read();
}

/** What its trials do is told in events of their own. */
function followSweep() {
  trials.follow(shown.job.trials);
  followEvents({ job: hearOfSweep, progress: ({ job, progress }) => trials.hearProgress(job, progress), again: readSweep, opened: reread });
}

function hearOfSweep(job) {
  if (job.sweep === site.job) trials.hear(job);
  if (job.id !== site.job) return;
  events += 1;
  shown.job = { ...job, ...notInEvents(shown.job) };
  shown.notice = null;
  trials.follow(job.trials);
  if (waits(job) && !job.starts) reread();
  redraw();
}

function readSweep() {
  reread();
  trials.read();
}

/** Looking is what keeps the expected start of a waiting job up to date. */
function lookAgain() {
  if (waits(shown.job) && !document.hidden) reread();
}

function drawMissing(error) {
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  page.replaceChildren();
  if (error.status !== 404) return showMessage(error);
  document.querySelector("h1").textContent = "Not found";
  const jobs = h("a", { href: site.prefix }, "My jobs");
  return patch(page, emptyState(clean(error.message), "It may be somebody else's, or have been removed since. ", jobs));
}

function readAll() {
  reread();
  log.read();
}

async function read() {
  const then = events;
  const job = await call("GET", path).catch(() => null);
  if (job && then === events) shown.job = job;
  if (shown.job.trials) trials.follow(shown.job.trials);
  redraw();
}

/** An event is newer than an answer that was asked for before it. */
function hearEvent(job) {
  events += 1;
  hear(job);
}

/** The fields of a job that events leave out. */
function notInEvents({ source, environment, chosen }) {
  return { source, environment, chosen };
}

/** Events have the latest attempts only, and not what the job runs. */
function hear(job) {
  const first = job.attempts[0]?.number ?? Infinity;
  const earlier = shown.job.attempts.filter((attempt) => attempt.number < first);
  shown.job = { ...job, ...notInEvents(shown.job), attempts: [...earlier, ...job.attempts] };
  shown.notice = null;
  if (waits(job) && !job.starts) reread();
  log.read();
  redraw();
}

function hearProgress(data) {
  shown.job = { ...shown.job, progress: data.progress ?? data };
  redraw();
}

function hearUsage({ usage }) {
  shown.job = { ...shown.job, usage };
  use.read();
  redraw();
}

function act(name) {
  return async () => {
    shown.notice = null;
    try {
      const then = events;
      const job = await call("POST", `${path}/${name}`);
      if (then === events) (job.trials ? hearOfSweep : hear)(job);
    } catch (error) {
      shown.notice = error.message;
    }
    redraw();
  };
}

function draw() {
  const { job } = shown;
  const now = clockNow();
  const title = clean(job.name) || job.id;
  document.title = `${title} · Springtide`;
  document.querySelector("h1").textContent = title;
  document.getElementById("page").removeAttribute("aria-busy");
  patch(
    document.getElementById("page"),
    h("p", { key: "back" }, h("a", { href: site.prefix }, "← My jobs"), job.sweep && [" · ", h("a", { key: "sweep", href: jobPath(job.sweep), "data-testid": "sweep-link" }, "its sweep")]),
    h("h2", { key: "now", class: "st-hidden" }, "Now"),
    job.trials ? drawSweep(job, now) : drawJob(job, now),
    section("what", job.trials ? "What each trial runs" : "What it runs", drawSource(job)),
    job.environment && section("environment", "Environment", environmentFacts(job.environment, job.options.image)),
    section("facts", job.trials ? "What each trial asks for" : "What it asked for", drawFacts(job, now)),
  );
}

function drawCard(job, data) {
  const may = job.user === site.user || site.administers(job.project);
  const acts = may ? { pause: act("pause"), resume: act("resume"), cancel: act("cancel"), finish: act("finish"), retry: act("retry") } : {};
  const actions = job.user === site.user && !job.sweep ? { ...acts, rerun: () => editor.send(), edit: () => editor.open() } : acts;
  const card = { job, now: clockNow(), colour: shown.colour, simulated: shown.simulated, notice: shown.notice, editor, pageOf: jobPath, compareOf: comparePath, ...data };
  return h("article", { key: "card", class: "st-large", draw: (node) => renderWorkCard(node, card, actions) });
}

function drawSweep(job, now) {
  return [drawCard(job, { rows: trials.rows }), section("events", "What happened", drawEvents(job, now))];
}

function drawJob(job, now) {
  const { colour } = shown;
  const points = curves.of(job);
  const names = curveNames(points).slice(0, MOST_CURVES);
  const metrics = names.map((name) => h("div", { key: name, draw: (node) => renderMetricChart(node, { points, name, colour, across: shown.across, start: points[0].at }) }));
  const charts = [...metrics, ...use.draw(job, colour)];
  outputs.follow(job);
  return [
    drawCard(job, { points, log: null }),
    charts.length > 0 && section("curves", "Metrics", [names.length > 0 && [drawAcross(), trackers.draw()], h("div", { key: "curves", class: "st-curves" }, charts)]),
    section("log", "Log", h("div", { draw: (node) => renderLog(node, log.data(job), log.actions) })),
    section("outputs", "Outputs", outputs.draw(job)),
    section("attempts", "Attempts", drawAttempts(job, now)),
    section("events", "What happened", drawEvents(job, now)),
  ];
}

function drawAcross() {
  const choose = (event) => {
    shown.across = event.target.value;
    redraw();
  };
  return h(
    "label",
    { key: "across", class: "st-span" },
    "Over ",
    h("select", { class: "form-select form-select-sm", "data-testid": "metrics-across", on: { change: choose } }, h("option", { key: "step", value: "step" }, "steps"), h("option", { key: "time", value: "time" }, "time")),
  );
}

function section(key, title, content) {
  return h("section", { key, class: "st-section", "data-testid": `section-${key}` }, h("h2", {}, title), content);
}
