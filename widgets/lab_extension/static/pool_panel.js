/** The pool in the frame of JupyterLab: a side panel, and its state in the status bar. */

import { h, patch } from "./visuals/base/dom.js";
import { isFinal, stage } from "./visuals/base/glyphs.js";
import { allWordsLast, waits } from "./visuals/base/job_words.js";
import { whileInSight } from "./visuals/base/pace.js";
import { clean, clockNow, count } from "./visuals/base/words.js";
import { isLive, shownAt, staleLasts, staleWords } from "./visuals/live/stale.js";
import { renderJobRows } from "./visuals/views/job_rows.js";
import { renderPoolGlance } from "./visuals/views/pool_glance.js";
import { storeNotice } from "./visuals/views/store_notice.js";

const MOST_ACTIVE = 40;
const MOST_ENDED = 10;
const ORDER = ["running", "starting", "pausing", "paused", "queued"];

/** Shows the pool, the caller's jobs and their places in the queue in `element`; returns a function that ends it. */
export function showPanel(element, feed, pages) {
  stage(element, "st-panel", { testid: "pool-panel" });
  const openedAt = clockNow();
  const lasts = () => staleLasts(feed) ?? allWordsLast(feed.mine.jobs ?? [], clockNow());
  const view = whileInSight(element, () => drawPanel(element, feed, pages, openedAt), lasts);
  const watching = [feed.watchPool(view.draw), feed.watchList(feed.mine, view.draw)];
  return () => {
    view.stop();
    for (const { stop } of watching) stop();
  };
}

function drawPanel(element, feed, pages, openedAt) {
  const stale = staleWords(feed, openedAt) ?? feed.listProblem?.message ?? null;
  const jobs = feed.mine.jobs ?? [];
  const active = jobs.filter(({ state }) => !isFinal(state)).toSorted(byState);
  const ended = jobs.filter(({ state }) => isFinal(state)).toSorted((one, other) => other.ended - one.ended);
  const waiting = active.filter(waits);
  const mine = (feed.me?.projects ?? []).map((project) => project.name);
  const now = shownAt(feed, openedAt);
  const offered = (job) => {
    const { actions, notice } = feed.live(job.id);
    return { actions: feed.mayAct(job) ? actions : {}, notice, blocked: !isLive(feed) };
  };
  const rows = (some, more) => (node) =>
    renderJobRows(node, { jobs: some, now, colours: feed.colours, more, stale: null }, feed.links.pageOf, offered);
  patch(
    element,
    !stale && storeNotice(feed.pool, feed.me?.admin),
    stale && h("p", { key: "stale", class: "st-notice", role: "status", "data-testid": "panel-stale" }, clean(stale)),
    feed.pool !== null &&
      section(
        "pool",
        "The pool",
        pages && h("a", { href: `${pages}pool`, target: "_blank" }, "more"),
        h("div", { draw: (node) => renderPoolGlance(node, { pool: feed.pool, mine }) }),
      ),
    feed.mine.jobs !== null &&
      section(
        "mine",
        "My jobs",
        pages && h("a", { href: pages, target: "_blank" }, "all"),
        (active.length > 0 || ended.length === 0) &&
          h("div", {
            key: "active",
            draw: rows(active.slice(0, MOST_ACTIVE), Math.max(0, active.length - MOST_ACTIVE)),
          }),
        !active.length && ended.length > 0 && h("p", { key: "none", class: "st-muted" }, "No job runs or waits."),
      ),
    waiting.length > 0 &&
      section(
        "line",
        "In line",
        null,
        h("ol", { class: "st-line-places" }, waiting.toSorted(byPlace).slice(0, MOST_ENDED).map(drawPlace)),
      ),
    ended.length > 0 && section("ended", "Ended", null, h("div", { draw: rows(ended.slice(0, MOST_ENDED), 0) })),
    feed.mine.jobs === null && !stale && h("p", { key: "connecting", class: "st-muted" }, "Connecting to the pool…"),
  );
}

function section(key, title, link, ...content) {
  return h(
    "section",
    { key, "data-testid": `panel-${key}` },
    h("header", { key: "head" }, h("h3", {}, title), link),
    ...content,
  );
}

function byState(one, other) {
  return ORDER.indexOf(one.state) - ORDER.indexOf(other.state);
}

function byPlace(one, other) {
  return (one.place ?? Infinity) - (other.place ?? Infinity);
}

function drawPlace(job) {
  const name = clean(job.name) || job.id;
  const before =
    job.place === null ? "waits" : job.place === 1 ? "is next" : `waits behind ${count(job.place - 1, "job")}`;
  return h("li", { key: job.id }, h("strong", {}, name), ` ${before}`);
}

/** Shows the pool's state in the status bar; returns a function that ends it. */
export function showStatus(element, feed, open) {
  stage(element, "st-status", { testid: "pool-status" });
  const drawing = () =>
    patch(
      element,
      h("button", { key: "open", type: "button", title: "Show the pool", on: { click: open } }, statusWords(feed)),
    );
  const view = whileInSight(element, drawing);
  const { stop } = feed.watchPool(view.draw);
  return () => {
    view.stop();
    stop();
  };
}

function statusWords(feed) {
  if (!isLive(feed) || feed.pool === null) return feed.connection.state === "away" ? "Pool: no answer" : "Pool: …";
  const { train_held: held, train_gpus: all, store_trouble: trouble } = feed.pool;
  if (trouble) return "Pool: nothing starts";
  return `Pool: ${held} of ${count(all, "GPU")} held`;
}
