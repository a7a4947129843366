/** My jobs: a table that the server searches, sorts and pages, with a live card on demand. */

import { drawFilters, drawPager, filtersOf, queryOf } from "./jobs/filters.js";
import { drawTable } from "./jobs/job_table.js";
import { Selection } from "./jobs/selection.js";
import {
  attempted,
  call,
  calmly,
  comparePath,
  followEvents,
  jobPath,
  oncePerFrame,
  showMessage,
  site,
  tagPath,
} from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { emptyState, isFinal } from "./visuals/base/glyphs.js";
import { waits } from "./visuals/base/job_words.js";
import { clockNow } from "./visuals/base/words.js";
import { CurveKeeper } from "./visuals/live/curves.js";
import { RerunEditor } from "./visuals/live/rerun_editor.js";
import { TrialKeeper } from "./visuals/live/trial_keeper.js";

const PAGE = 50;
const LOOK_AGAIN_S = 30;
const EXAMPLE = 'from springtide.widgets import pool\n\njob = pool.submit("python train.py", gpus=1)\njob';

const shown = {
  filters: filtersOf(window.location.search),
  jobs: new Map(),
  cursors: [null],
  next: null,
  loaded: false,
  open: new Set(),
  notices: new Map(),
};
let pool = null;
let asked = 0;
let events = 0;
let poolsHeard = 0;
const heard = new Map();
const redraw = oncePerFrame(draw);
const curves = new CurveKeeper(call, redraw);
const look = calmly(load, 2);
const sweeps = new Map();
const editors = new Map();
const selection = new Selection(redraw, { mayAct, hear: hearJob });

start();

async function start() {
  [pool] = await Promise.all([attempted(() => call("GET", "pool")), load()]);
  redraw();
  followEvents({
    job: hearEvent,
    pool: hearPool,
    progress: hearProgress,
    usage: hearUsage,
    admin: refresh,
    again: refresh,
    opened: load,
  });
  setInterval(redraw, 1000);
  setInterval(lookAgain, 1000 * LOOK_AGAIN_S);
}

/** Looking is what keeps the expected starts of waiting jobs up to date. */
function lookAgain() {
  if (!document.hidden && [...shown.jobs.values()].some(waits)) load();
}

/** Reads the page that is on show again. What ended meanwhile stays until somebody asks for something else. */
async function load() {
  const turn = ++asked;
  const then = events;
  const query = queryOf(shown.filters, clockNow());
  query.set("limit", PAGE);
  query.set("starts", 0);
  const cursor = shown.cursors.at(-1);
  if (cursor) query.set("cursor", cursor);
  const page = await attempted(() => call("GET", `jobs?${query}`));
  if (!page || turn !== asked) return;
  const ended = shown.loaded ? [...shown.jobs.values()].filter((job) => isFinal(job.state)) : [];
  const listed = page.items.map((job) => (outdated(job.id, then) ? (shown.jobs.get(job.id) ?? job) : job));
  shown.jobs = new Map(
    [...listed, ...ended.filter((job) => !page.items.some(({ id }) => id === job.id))].map((job) => [job.id, job]),
  );
  shown.next = page.next;
  shown.loaded = true;
  redraw();
}

async function refresh() {
  for (const trials of sweeps.values()) trials.read();
  const then = poolsHeard;
  const found = await attempted(() => call("GET", "pool"));
  if (found && then === poolsHeard) pool = found;
  await load();
}

/** Shows another page of the list, or the first page of another list; until it is there, what was on show stays. */
function turn(cursors) {
  shown.cursors = cursors;
  shown.loaded = false;
  selection.clear();
  load();
  redraw();
}

function choose(changes) {
  shown.filters = { ...shown.filters, ...changes };
  const query = queryOf(shown.filters);
  window.history.replaceState(null, "", `${window.location.pathname}${query.size ? `?${query}` : ""}`);
  showMessage(null);
  turn([null]);
}

function mayAct(job) {
  return job.user === site.user || site.administers(job.project);
}

function hearPool(data) {
  const restarted = pool !== null && data.seq < pool.seq;
  poolsHeard += 1;
  pool = data;
  if (restarted) refresh();
  redraw();
}

/** A trial is no row of its own: it shows on the card of its sweep. */
function hearEvent(job) {
  if (job.sweep) {
    sweeps.get(job.sweep)?.hear(job);
    return;
  }
  heard.set(job.id, ++events);
  hearJob(job);
}

/** Whether an event has told of a job since `then`: it is newer than an answer that was asked for before. */
function outdated(id, then) {
  return (heard.get(id) ?? 0) > then;
}

function hearJob(job) {
  if (!shown.jobs.has(job.id)) {
    if (shown.filters.everybody || job.user === site.user) look();
    return;
  }
  shown.jobs.set(job.id, job);
  shown.notices.delete(job.id);
  if (waits(job) && !job.starts) look();
  redraw();
}

function hearProgress(data) {
  const job = shown.jobs.get(data.job);
  if (!job) {
    for (const trials of sweeps.values()) trials.hearProgress(data.job, data.progress);
    return;
  }
  shown.jobs.set(job.id, { ...job, progress: data.progress });
  redraw();
}

function hearUsage({ job: id, usage }) {
  const job = shown.jobs.get(id);
  if (!job) return;
  shown.jobs.set(id, { ...job, usage });
  redraw();
}

function draw() {
  const page = document.getElementById("page");
  const { filters } = shown;
  const jobs = [...shown.jobs.values()];
  const title = filters.everybody ? (site.admin ? "Everybody's jobs" : "My projects' jobs") : "My jobs";
  document.title = `${title} · Springtide`;
  document.querySelector("h1").textContent = title;
  if (shown.loaded) page.removeAttribute("aria-busy");
  const data = {
    jobs,
    now: clockNow(),
    pool,
    filters,
    open: shown.open,
    selection,
    cardOf,
    href: jobPath,
    tagHref: tagPath,
  };
  const actions = { choose, toggle };
  patch(
    page,
    drawFilters(filters, pool?.projects ?? [], choose),
    h("h2", { key: "list", class: "st-hidden" }, "List"),
    jobs.length > 0 &&
      h(
        "button",
        {
          key: "select",
          type: "button",
          class: "st-button st-narrow st-select-all",
          "data-testid": "select-page",
          on: { click: () => selection.setAll(jobs, !selection.hasAll(jobs)) },
        },
        "Select all of this page",
      ),
    selection.draw(jobs),
    jobs.length > 0 && drawTable(data, actions),
    shown.loaded && !jobs.length && drawEmpty(),
    drawPager(
      { number: shown.cursors.length, next: shown.next, ready: shown.loaded },
      { back: () => turn(shown.cursors.slice(0, -1)), on: () => shown.loaded && turn([...shown.cursors, shown.next]) },
    ),
  );
}

function toggle(id) {
  if (!shown.open.delete(id)) shown.open.add(id);
  else forgetTrials(id);
  redraw();
}

/** What the card of a job is drawn from, and what can be done on it. */
function cardOf(job) {
  const colour = pool?.projects.find((project) => project.name === job.project)?.colour ?? null;
  const editor = job.user === site.user ? editorOf(job.id) : null;
  const about = {
    job,
    now: clockNow(),
    colour,
    simulated: pool?.simulated,
    href: jobPath(job.id),
    notice: shown.notices.get(job.id),
    pageOf: jobPath,
    compareOf: comparePath,
    editor,
  };
  const data = job.trials ? { ...about, rows: rowsOf(job) } : { ...about, points: curves.of(job), log: null };
  const again = editor ? { rerun: () => editor.send(), edit: () => editor.open() } : {};
  return { data, actions: { ...(mayAct(job) ? actionsOf(job.id) : {}), ...again } };
}

/** What runs a job again from its card; the new job is a row of its own, and its card is opened. */
function editorOf(id) {
  if (!editors.has(id)) editors.set(id, new RerunEditor(call, id, redraw, showSent));
  return editors.get(id);
}

function showSent(job) {
  shown.jobs = new Map([[job.id, job], ...shown.jobs]);
  shown.open.add(job.id);
  look();
}

/** The trials of a sweep whose card is open; read when it is opened. */
function rowsOf({ id, trials }) {
  if (!sweeps.has(id)) sweeps.set(id, new TrialKeeper(call, id, redraw));
  sweeps.get(id).follow(trials);
  return sweeps.get(id).rows;
}

function forgetTrials(id) {
  sweeps.get(id)?.stop();
  sweeps.delete(id);
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
  return {
    pause: act("pause"),
    resume: act("resume"),
    cancel: act("cancel"),
    finish: act("finish"),
    retry: act("retry"),
  };
}

function drawEmpty() {
  const { filters } = shown;
  if (filters.search || filters.state || filters.project || filters.within || filters.tag) {
    const all = () => choose({ search: "", state: "", project: "", within: "", tag: "" });
    return emptyState(
      "No job matches.",
      "Try other words, or ",
      h(
        "button",
        { type: "button", class: "st-button", "data-testid": "clear-filters", on: { click: all } },
        "show all",
      ),
    );
  }
  if (filters.show === "ended")
    return emptyState("No job has ended here yet.", "What succeeds, fails or is cancelled stays here.");
  const title = filters.show === "active" ? "No job runs or waits here." : "No jobs here yet.";
  return h(
    "div",
    { key: "empty", class: "st-empty", "data-testid": "empty" },
    h("strong", {}, title),
    h("p", {}, "Send one from a notebook:"),
    h("pre", { class: "st-log" }, EXAMPLE),
    h(
      "p",
      { class: "mb-0" },
      h("a", { href: `${site.hub}spawn` }, "Open a workspace"),
      ", or see ",
      h("a", { href: `${site.prefix}pool` }, "what is free in the pool"),
      ".",
    ),
  );
}
