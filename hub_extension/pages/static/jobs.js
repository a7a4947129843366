/** My jobs: a live card each. */

import { CurveKeeper } from "./jobs/curves.js";
import { attempted, call, calmly, followEvents, jobPath, oncePerFrame, showMessage, site } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { emptyState, isFinal } from "./visuals/base/glyphs.js";
import { renderJobCard } from "./visuals/views/job_card.js";
import { waits } from "./visuals/base/job_words.js";
import { clockNow } from "./visuals/base/words.js";

const PAGE = 20;
const MOST = 200;
const LOOK_AGAIN_S = 30;
const ACTIVE = ["queued", "starting", "running", "pausing", "paused"];
const ENDED = ["succeeded", "failed", "cancelled"];
const STATES = { active: ACTIVE, ended: ENDED, all: [] };
const EXAMPLE = 'from springtide.widgets import pool\n\njob = pool.submit("python train.py", gpus=1)\njob';

const shown = { filter: "active", everybody: false, jobs: new Map(), next: null, loaded: false, notices: new Map() };
let pool = null;
const redraw = oncePerFrame(draw);
const curves = new CurveKeeper(redraw);
const look = calmly(load, 2);
const heard = new Map();
let events = 0;

start();

async function start() {
  const query = new URLSearchParams(window.location.search);
  if (query.get("show") in STATES) shown.filter = query.get("show");
  shown.everybody = query.get("whose") === "all";
  pool = await attempted(() => call("GET", "pool"));
  await load();
  followEvents({
    job: hearEvent,
    pool: hearPool,
    progress: hearProgress,
    admin: refresh,
    again: refresh,
  });
  setInterval(redraw, 1000);
  setInterval(lookAgain, 1000 * LOOK_AGAIN_S);
}

/** Looking is what keeps the expected starts of waiting jobs up to date. */
function lookAgain() {
  if (!document.hidden && [...shown.jobs.values()].some(waits)) load();
}

async function load(more = false) {
  const asked = `${shown.filter} ${shown.everybody}`;
  const query = new URLSearchParams({ limit: more ? PAGE : Math.min(MOST, Math.max(PAGE, shown.jobs.size)) });
  if (STATES[shown.filter].length) query.set("state", STATES[shown.filter].join(","));
  if (!shown.everybody) query.set("mine", "1");
  if (more && shown.next) query.set("cursor", shown.next);
  const then = events;
  const page = await attempted(() => call("GET", `jobs?${query}`));
  if (!page || asked !== `${shown.filter} ${shown.everybody}`) return;
  const listed = new Set(page.items.map((job) => job.id));
  for (const job of page.items) if (!shown.jobs.has(job.id) || !outdated(job.id, then)) shown.jobs.set(job.id, job);
  if (!more) for (const job of shown.jobs.values()) if (!listed.has(job.id) && !isFinal(job.state)) reread(job.id);
  shown.next = page.next;
  shown.loaded = true;
  redraw();
}

async function refresh() {
  pool = (await attempted(() => call("GET", "pool"))) ?? pool;
  await load();
}

async function reread(id) {
  try {
    const then = events;
    const job = await call("GET", `jobs/${encodeURIComponent(id)}`);
    if (!outdated(id, then)) shown.jobs.set(id, job);
  } catch (error) {
    if (error.status === 404) shown.jobs.delete(id);
  }
  redraw();
}

function hearPool(data) {
  const restarted = pool !== null && data.seq < pool.seq;
  pool = data;
  if (restarted) refresh();
  redraw();
}

function hearEvent(job) {
  heard.set(job.id, ++events);
  hearJob(job);
}

/** Whether an event has told of a job since `then`: it is newer than an answer that was asked for before. */
function outdated(id, then) {
  return (heard.get(id) ?? 0) > then;
}

function hearJob(job) {
  const known = shown.jobs.has(job.id);
  const mine = shown.everybody || job.user === site.user;
  if (!known && !(mine && wanted(job))) return;
  shown.jobs.set(job.id, job);
  shown.notices.delete(job.id);
  if (waits(job) && !job.starts) look();
  redraw();
}

function hearProgress(data) {
  const id = data.job ?? data.id;
  const job = shown.jobs.get(id);
  if (!job) return;
  shown.jobs.set(id, { ...job, progress: data.progress ?? data });
  redraw();
}

function wanted(job) {
  return !STATES[shown.filter].length || STATES[shown.filter].includes(job.state);
}

function draw() {
  const jobs = [...shown.jobs.values()].sort((one, other) => other.submitted - one.submitted || (one.id < other.id ? 1 : -1));
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  patch(
    page,
    drawFilters(),
    jobs.length > 0 && h("div", { key: "cards", class: "st-cards", "data-testid": "job-list" }, jobs.map(drawCard)),
    shown.loaded && !jobs.length && drawEmpty(),
    shown.next && h("button", { key: "more", type: "button", class: "st-button st-more", "data-testid": "more-jobs", on: { click: () => load(true) } }, "Show older jobs"),
  );
}

function drawFilters() {
  const choose = (filter) => () => {
    shown.filter = filter;
    remember();
  };
  const whose = (event) => {
    shown.everybody = event.target.checked;
    remember();
  };
  return h(
    "div",
    { key: "filters", class: "st-filters" },
    h(
      "div",
      { key: "states", class: "btn-group", role: "group", "aria-label": "Which jobs" },
      Object.keys(STATES).map((filter) =>
        h("button", { key: filter, type: "button", class: `btn btn-sm ${shown.filter === filter ? "btn-primary" : "btn-outline-secondary"}`, "aria-pressed": String(shown.filter === filter), "data-testid": `filter-${filter}`, on: { click: choose(filter) } }, filter),
      ),
    ),
    h("label", { key: "whose" }, h("input", { type: "checkbox", checked: shown.everybody, "data-testid": "filter-everybody", on: { change: whose } }), site.admin ? " Everybody's jobs" : " My projects' jobs too"),
  );
}

function remember() {
  const query = new URLSearchParams();
  if (shown.filter !== "active") query.set("show", shown.filter);
  if (shown.everybody) query.set("whose", "all");
  window.history.replaceState(null, "", `${window.location.pathname}${query.size ? `?${query}` : ""}`);
  showMessage(null);
  shown.jobs.clear();
  shown.loaded = false;
  load();
}

function drawCard(job) {
  const colour = pool?.projects.find((project) => project.name === job.project)?.colour ?? null;
  const actions = job.user === site.user || site.admin ? actionsOf(job.id) : {};
  const points = curves.of(job);
  const data = { job, points, now: clockNow(), colour, simulated: pool?.simulated, href: jobPath(job.id), notice: shown.notices.get(job.id), log: null };
  return h("article", { key: job.id, class: isFinal(job.state) ? "st-ended" : null, draw: (node) => renderJobCard(node, data, actions) });
}

function actionsOf(id) {
  const act = (name) => async () => {
    shown.notices.delete(id);
    try {
      const then = events;
      const job = await call("POST", `jobs/${encodeURIComponent(id)}/${name}`);
      if (!outdated(id, then)) hearJob(job);
    } catch (error) {
      shown.notices.set(id, error.message);
    }
    redraw();
  };
  return { pause: act("pause"), resume: act("resume"), cancel: act("cancel") };
}

function drawEmpty() {
  if (shown.filter === "ended") return emptyState("No job of yours has ended yet.", "What succeeds, fails or is cancelled stays here.");
  const title = shown.filter === "active" ? "None of your jobs runs or waits." : "No jobs here yet.";
  return h(
    "div",
    { key: "empty", class: "st-empty", "data-testid": "empty" },
    h("strong", {}, title),
    h("p", {}, "Send one from a notebook:"),
    h("pre", { class: "st-log" }, EXAMPLE),
    h("p", { class: "mb-0" }, h("a", { href: `${site.hub}spawn` }, "Open a notebook"), ", or see ", h("a", { href: `${site.prefix}pool` }, "what is free in the pool"), "."),
  );
}
