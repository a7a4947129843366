/** My jobs: a table that the server searches, sorts and pages, with a live card on demand. */

import { ChosenColumns } from "./jobs/columns.js";
import { downloadTable } from "./jobs/export.js";
import { drawFilters, drawPager, filtersOf, queryOf } from "./jobs/filters.js";
import { drawTable } from "./jobs/job_table.js";
import { Selection } from "./jobs/selection.js";
import { attempted, call, followPool, jobPath, showMessage, showTitle, site, tagPath } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { button, emptyState } from "./visuals/base/glyphs.js";
import { waits } from "./visuals/base/job_words.js";
import { oncePerFrame } from "./visuals/base/pace.js";
import { amount, clockNow } from "./visuals/base/words.js";
import { JobList } from "./visuals/live/job_list.js";
import { drawLiveCard } from "./visuals/live/job_view.js";
import { RerunEditor } from "./visuals/live/rerun_editor.js";

const PAGE = 50;
const LOOK_AGAIN_MS = 30_000;
const EXAMPLE = 'from springtide.widgets import pool\n\njob = pool.submit("python train.py", gpus=1)\njob';

const shown = { filters: filtersOf(window.location.search), cursors: [null], open: new Set(), lookedAt: null };
const redraw = oncePerFrame(draw);
const feed = followPool();
const list = new JobList(feed, ask, (job) => shown.filters.everybody || feed.isOwn(job));
const editors = new Map();
const selection = new Selection(redraw, feed, { reread: () => list.read(true), sent: showSent });
const columns = new ChosenColumns(redraw);

start();

function start() {
  feed.watchPool(redraw);
  feed.watchList(list, redraw);
  feed.fetchPool();
  list.read();
  setInterval(redraw, 1000);
  setInterval(lookAgain, LOOK_AGAIN_MS);
}

/** Reads the list again: that keeps the expected starts of waiting jobs up to date. */
function lookAgain() {
  if (!document.hidden && list.jobs?.some(waits)) list.read();
}

/** Promises the displayed page of the list, or null. The first page begins with pinned jobs, ended ones too. */
async function ask() {
  const { filters, cursors } = shown;
  const query = queryOf(filters, clockNow());
  query.set("limit", PAGE);
  query.set("starts", 0);
  const cursor = cursors.at(-1);
  if (cursor) query.set("cursor", cursor);
  const pins = new URLSearchParams(query);
  for (const name of ["state", "since"]) pins.delete(name);
  pins.set("pinned", 1);
  const first = !cursor && !isNarrowed(filters);
  const [page, pinned] = await Promise.all([
    attempted(() => call("GET", `jobs?${query}`)),
    first ? call("GET", `jobs?${pins}`).catch(() => null) : null,
  ]);
  if (page === null) return null;
  const ids = new Set(pinned?.items.map(({ id }) => id));
  shown.lookedAt = page.looked_at;
  return { ...page, items: [...(pinned?.items ?? []), ...page.items.filter(({ id }) => !ids.has(id))] };
}

function isNarrowed({ search, state, project, within, tag, archived }) {
  return Boolean(search || state || project || within || tag || archived);
}

/** Shows another page of the list, or the first page of another list; until then the old one stays. */
function turn(cursors) {
  shown.cursors = cursors;
  selection.clear();
  list.read(true);
  redraw();
}

function choose(changes) {
  shown.filters = { ...shown.filters, ...changes };
  const query = queryOf(shown.filters);
  window.history.replaceState(null, "", `${window.location.pathname}${query.size ? `?${query}` : ""}`);
  showMessage(null);
  turn([null]);
}

function draw() {
  const page = document.getElementById("page");
  const { filters, cursors, open } = shown;
  const { isRead, next } = list;
  const { pool } = feed;
  const jobs = list.jobs ?? [];
  showTitle(filters.everybody ? (site.admin ? "Everybody's jobs" : "My projects' jobs") : "My jobs");
  if (isRead) page.removeAttribute("aria-busy");
  const more = columns.of(jobs);
  const data = { jobs, now: clockNow(), pool, filters, open, selection, more, href: jobPath, tagHref: tagPath };
  const actions = { choose, toggle, drawCard };
  patch(
    page,
    drawFilters(filters, pool?.projects ?? [], choose),
    h("h2", { key: "list", class: "st-hidden" }, "List"),
    jobs.length > 0 &&
      h(
        "div",
        { key: "tools", class: "st-table-tools" },
        columns.draw(jobs),
        button("export-jobs", "Download CSV", () => downloadTable(queryOf(filters, clockNow())), {
          title: "All jobs of this list, with their arguments and metrics",
        }),
      ),
    jobs.length > 0 &&
      button("select-page", "Select all of this page", () => selection.setAll(jobs, !selection.hasAll(jobs)), {
        class: "st-button st-narrow st-select-all",
      }),
    selection.draw(jobs),
    jobs.length > 0 && drawTable(data, actions),
    isRead && !jobs.length && drawEmpty(),
    shown.lookedAt &&
      h(
        "p",
        { key: "looked-at", class: "st-muted", role: "status", "data-testid": "looked-at" },
        `Only the newest ${amount(shown.lookedAt)} jobs were looked at. Choose a project or a time to narrow the list.`,
      ),
    drawPager(
      { number: cursors.length, next, ready: isRead },
      { back: () => turn(cursors.slice(0, -1)), on: () => isRead && turn([...cursors, next]) },
    ),
  );
}

function toggle(id) {
  if (!shown.open.delete(id)) shown.open.add(id);
  else feed.live(id).forgetTrials();
  redraw();
}

/** Draws the card of a job below its row; a rerun gets a row of its own, with an open card. */
function drawCard(node, { id }) {
  if (!editors.has(id)) editors.set(id, new RerunEditor(call, id, redraw, showSent));
  drawLiveCard(node, feed.live(id), editors.get(id), { href: jobPath(id) });
}

function showSent(job, opens = true) {
  if (opens) shown.open.add(job.id);
  list.add(job);
}

function drawEmpty() {
  const { filters } = shown;
  if (isNarrowed(filters)) {
    const all = () => choose({ search: "", state: "", project: "", within: "", tag: "", archived: "" });
    return emptyState("No job matches.", "Try other words, or ", button("clear-filters", "show all", all));
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
      h("a", { href: `${site.prefix}pool` }, "the free GPUs of the pool"),
      ".",
    ),
  );
}
