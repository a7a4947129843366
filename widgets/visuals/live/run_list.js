/** A person's jobs as a table that the server searches, sorts and pages, with a live card on demand. */

import { markBeyond } from "../base/beyond.js";
import { h, patch } from "../base/dom.js";
import { button, emptyState } from "../base/glyphs.js";
import { waits, wordsLast } from "../base/job_words.js";
import { whileInSight } from "../base/pace.js";
import { saveBlob } from "../base/saving.js";
import { tips } from "../base/tip.js";
import { agoLasts, amount, asSentence, clean, clockNow } from "../base/words.js";
import { ChosenColumns } from "../views/run_columns.js";
import { drawFilters, drawPager, passes, queryOf } from "../views/run_filters.js";
import { byTime, drawTable } from "../views/run_table.js";
import { storeNotice } from "../views/store_notice.js";
import { JobList } from "./job_list.js";
import { drawLiveCard } from "./job_view.js";
import { RerunEditor } from "./rerun_editor.js";
import { Selection } from "./run_selection.js";

const PAGE = 50;
const LOOK_AGAIN_MS = 30_000;
/** Events of a pointer that the hand moves. Those of `:hover` come also if the page moves below a resting one. */
const POINTING = ["pointermove", "pointerdown"];
/** The parameters in which the search is sent. */
const SEARCHES = ["where", "search"];

/**
 * Shows the table in `element`.
 * @param feed `PoolFeed`
 * @param place of the table: `filters` at first; `owner`: whose columns are remembered, in words; `choose(filters)` and
 *   `title(words)` are called when they change; `attempt(work)` runs work and shows its refusal, and promises null then;
 *   `tagHref(tag)`: address of the table of a tag, or null; `drawNone(title)` describes the table without jobs
 * @returns `filters(changes)`, which changes the filters, `stop()`, and `start()`, which goes on after that: with its open
 *   cards, the input of their forms, and the selection
 */
export function showRuns(element, feed, place) {
  const runs = new RunList(element, feed, place);
  runs.start();
  return { filters: (changes) => runs.choose(changes), start: () => runs.start(), stop: () => runs.stop() };
}

class RunList {
  constructor(element, feed, place) {
    this.element = element;
    this.feed = feed;
    this.place = place;
    this.filters = place.filters;
    this.cursors = [null];
    this.open = new Set();
    this.lookedAt = null;
    this.note = "";
    this.refused = null;
    this.listedSearch = "";
    this.editors = new Map();
    const redraw = () => this.view?.draw();
    this.list = new JobList(
      feed,
      () => this.#ask(),
      (job) => this.filters.everybody || feed.isOwn(job),
      (id) => this.selection.forget(id),
    );
    this.selection = new Selection(() => this.view?.now(), feed, {
      reread: () => this.list.read(true),
      sent: (job, opens) => this.#showSent(job, opens),
    });
    this.columns = new ChosenColumns(redraw, place.owner);
    tips(element);
    this.keepsAtHand = false;
    this.pointed = null;
    this.point = (event) => this.#point(event);
    this.left = () => this.#leave();
    this.width = element.clientWidth;
    this.resizing = new ResizeObserver(() => this.#resized());
    this.redraw = redraw;
  }

  start() {
    const { element, feed, redraw } = this;
    for (const type of POINTING) window.addEventListener(type, this.point);
    element.addEventListener("focusout", this.left);
    this.resizing.observe(element);
    this.watching = [feed.watchPool(redraw), feed.watchList(this.list, redraw)];
    feed.fetchPool();
    this.list.read();
    this.looking = setInterval(() => this.#lookAgain(), LOOK_AGAIN_MS);
    this.view = whileInSight(
      element,
      () => this.#draw(),
      () => this.#lasts(),
    );
  }

  stop() {
    clearInterval(this.looking);
    this.resizing.disconnect();
    for (const type of POINTING) window.removeEventListener(type, this.point);
    this.element.removeEventListener("focusout", this.left);
    this.view.stop();
    for (const { stop } of this.watching) stop();
  }

  /** Notes the row that the pointer was moved to last: it stays at hand though the table moves below a resting pointer. */
  #point({ target }) {
    const row = this.element.contains(target) ? target.closest("[data-job]") : null;
    const job = row?.dataset.job ?? null;
    if (job === this.pointed) return;
    this.pointed = job;
    this.#leave();
  }

  /** Draws without the rows that stayed only while they were at hand. */
  #leave() {
    if (this.keepsAtHand) this.redraw();
  }

  /** How long the drawn words stay true while nothing happens, in seconds; null for an empty table. */
  #lasts() {
    const jobs = this.list.jobs ?? [];
    if (!jobs.length) return null;
    const now = clockNow();
    return Math.min(...jobs.map((job) => wordsLast(job, now) ?? agoLasts(job.ended, now)));
  }

  /** In another width other columns fit. */
  #resized() {
    if (this.element.clientWidth === this.width) return;
    this.width = this.element.clientWidth;
    this.columns.widened();
    this.view.draw();
  }

  /** Draws with fewer columns as long as the table is wider than its place. */
  #fit(jobs) {
    const frame = this.element.querySelector(".st-wide-table");
    if (frame && frame.scrollWidth > frame.clientWidth && this.columns.narrowed(jobs)) this.#draw();
    else if (frame) markBeyond(frame);
  }

  get #isAdmin() {
    return Boolean((this.feed.viewer ?? this.feed.me)?.admin);
  }

  /** Reads the list again: that keeps the expected starts of waiting jobs up to date. */
  #lookAgain() {
    if (!document.hidden && this.list.jobs?.some(waits)) this.list.read();
  }

  get #beginsWithPins() {
    return this.cursors.length === 1 && !isNarrowed(this.filters);
  }

  /** The listed jobs that the filters still let through. One that left them stays while it is open, selected or at hand. */
  #shown() {
    const { element, filters, open, selection } = this;
    const focused = element.querySelectorAll("[data-job]:focus-within");
    const atHand = new Set([this.pointed, ...Array.from(focused, (row) => row.dataset.job)]);
    const stays = ({ id, pinned }) =>
      open.has(id) || selection.has(id) || atHand.has(id) || (pinned && this.#beginsWithPins);
    const jobs = this.list.jobs ?? [];
    this.keepsAtHand = jobs.some((job) => atHand.has(job.id) && !passes(filters, job));
    return jobs.filter((job) => passes(filters, job) || stays(job));
  }

  /** Promises the displayed page of the list, or null. The first page begins with pinned jobs, ended ones too. */
  async #ask() {
    const { filters, cursors } = this;
    const query = queryOf(filters, clockNow());
    query.set("limit", PAGE);
    query.set("starts", 0);
    const cursor = cursors.at(-1);
    if (cursor) query.set("cursor", cursor);
    const pins = new URLSearchParams(query);
    for (const name of ["state", "since"]) pins.delete(name);
    pins.set("pinned", 1);
    const first = this.#beginsWithPins;
    const [page, pinned] = await Promise.all([
      this.place.attempt(() => this.#answer(query, filters)),
      first ? this.feed.call("GET", `jobs?${pins}`).catch(() => null) : null,
    ]);
    if (page === null) return null;
    const ids = new Set(pinned?.items.map(({ id }) => id));
    this.lookedAt = page.looked_at;
    this.note = page.note;
    return { ...page, items: [...(pinned?.items ?? []), ...page.items.filter(({ id }) => !ids.has(id))] };
  }

  /** Promises a page of the list, or null if the pool refuses the search: its field says why. */
  async #answer(query, filters) {
    try {
      const page = await this.feed.call("GET", `jobs?${query}`);
      if (filters === this.filters) Object.assign(this, { refused: null, listedSearch: filters.search });
      return page;
    } catch (error) {
      if (!SEARCHES.includes(error.field)) throw error;
      if (filters === this.filters) this.refused = error.message;
      return null;
    }
  }

  /** Shows another page of the list, or the first page of another list; until then the old one stays. */
  #turn(cursors) {
    this.cursors = cursors;
    this.columns.widened();
    this.selection.close();
    this.list.read(true);
    this.view.draw();
  }

  choose(changes) {
    this.filters = { ...this.filters, ...changes };
    this.refused = null;
    this.place.choose(this.filters);
    this.#turn([null]);
  }

  #draw() {
    const { element, feed, filters, cursors, list, selection, columns, place } = this;
    const { isRead, next } = list;
    const { pool } = feed;
    const jobs = byTime(list.isOther ? (list.jobs ?? []) : this.#shown(), filters.order);
    columns.follow(jobs);
    place.title(filters.everybody ? (this.#isAdmin ? "Everybody's jobs" : "My projects' jobs") : "My jobs");
    const isEarlier = this.refused !== null;
    if (isRead || isEarlier) element.removeAttribute("aria-busy");
    const choose = (changes) => this.choose(changes);
    const { pageOf: href } = feed.links;
    const { tagHref } = place;
    const data = { jobs, now: clockNow(), pool, filters, open: this.open, selection, href, tagHref, isEarlier };
    const actions = { choose, toggle: (id) => this.#toggle(id), drawCard: (node, job) => this.#drawCard(node, job) };
    patch(
      element,
      storeNotice(pool, this.#isAdmin),
      drawFilters(filters, pool?.projects ?? [], choose, this.#isAdmin, this.#refusal(jobs)),
      h("h2", { key: "list", class: "st-hidden" }, "List"),
      jobs.length > 0 &&
        h(
          "div",
          { key: "tools", class: "st-table-tools" },
          button("export-jobs", "Download CSV", () => this.#download(), {
            title: "All jobs of this list, with their arguments and metrics",
            disabled: isEarlier,
          }),
          columns.draw(jobs),
        ),
      jobs.length > 0 &&
        button("select-page", "Select all of this page", () => selection.setAll(jobs, !selection.hasAll(jobs)), {
          class: "st-button st-narrow st-select-all",
        }),
      selection.draw(jobs),
      this.note &&
        h("p", { key: "note", class: "st-muted", role: "status", "data-testid": "absent" }, clean(this.note)),
      jobs.length > 0 && drawTable({ ...data, more: columns.of(jobs), leftOut: columns.leftOut(jobs) }, actions),
      isRead && !jobs.length && this.#drawEmpty(),
      this.lookedAt &&
        h(
          "p",
          { key: "looked-at", class: "st-muted", role: "status", "data-testid": "looked-at" },
          `Only the newest ${amount(this.lookedAt)} jobs were looked at. Choose a project or a time to narrow the list.`,
        ),
      drawPager(
        { number: cursors.length, next, ready: isRead },
        {
          back: () => this.#turn(cursors.slice(0, -1)),
          on: () => this.list.isRead && this.#turn([...this.cursors, this.list.next]),
        },
      ),
    );
    this.#fit(jobs);
  }

  /** Why the search was refused, and what the rows are that stay; null if it was not. */
  #refusal(jobs) {
    if (this.refused === null) return null;
    const earlier = clean(this.listedSearch);
    const rows = earlier ? `The rows below are still those of “${earlier}”.` : "The rows below are not filtered by it.";
    return [asSentence(this.refused), jobs.length > 0 && ` ${rows}`];
  }

  #download() {
    return this.place.attempt(async () => {
      const answer = await this.feed.openFile(`jobs.csv?${queryOf(this.filters, clockNow())}`);
      saveBlob(await answer.blob(), "jobs.csv");
    });
  }

  #toggle(id) {
    if (!this.open.delete(id)) this.open.add(id);
    else this.feed.live(id).forgetTrials();
    this.view.draw();
  }

  /** Draws the card of a job below its row; a rerun gets a row of its own, with an open card. */
  #drawCard(node, { id }) {
    const { feed, editors } = this;
    const redraw = () => this.view.draw();
    const sent = (job) => this.#showSent(job);
    if (!editors.has(id)) editors.set(id, new RerunEditor(feed.call, id, redraw, sent));
    drawLiveCard(node, feed.live(id), editors.get(id), { href: feed.links.pageOf(id) });
  }

  #showSent(job, opens = true) {
    if (opens) this.open.add(job.id);
    this.list.add(job);
  }

  #drawEmpty() {
    const { filters } = this;
    if (isNarrowed(filters)) {
      const none = { search: "", state: "", project: "", within: "", tag: "", archived: "" };
      const all = () => this.choose({ ...none, show: "all" });
      return emptyState("No job matches.", "Try other words, or ", button("clear-filters", "show all", all));
    }
    if (filters.show === "ended")
      return emptyState("No job has ended here yet.", "What succeeds, fails or is cancelled stays here.");
    return this.place.drawNone(filters.show === "active" ? "No job runs or waits here." : "No jobs here yet.");
  }
}

function isNarrowed({ search, state, project, within, tag, archived }) {
  return Boolean(search || state || project || within || tag || archived);
}
