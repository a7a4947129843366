/** The pool in the frame of JupyterLab: a side panel, and its state in the status bar. */

import { h, patch } from "./visuals/base/dom.js";
import { stage } from "./visuals/base/glyphs.js";
import { waits } from "./visuals/base/job_words.js";
import { oncePerFrame } from "./visuals/base/pace.js";
import { clean, clockNow, count } from "./visuals/base/words.js";
import { isLive, staleWords } from "./visuals/live/stale.js";
import { renderJobRows } from "./visuals/views/job_rows.js";
import { renderPoolGlance } from "./visuals/views/pool_glance.js";

const TICK_MS = 1000;

/** Shows the pool, the caller's jobs and their places in the queue in `element`; returns a function that ends it. */
export function showPanel(element, feed, pages) {
  stage(element, "st-panel");
  element.dataset.testid = "pool-panel";
  const openedAt = clockNow();
  const draw = oncePerFrame(() => drawPanel(element, feed, pages, openedAt));
  const watching = [feed.watchPool(draw), feed.watchList(feed.mine, draw)];
  const ticking = setInterval(draw, TICK_MS);
  draw();
  return () => {
    clearInterval(ticking);
    for (const { stop } of watching) stop();
  };
}

function drawPanel(element, feed, pages, openedAt) {
  const stale = staleWords(feed, openedAt) ?? feed.listProblem?.message ?? null;
  const jobs = feed.mine.jobs ?? [];
  const waiting = jobs.filter(waits);
  const mine = (feed.me?.projects ?? []).map((project) => project.name);
  const rows = { jobs, now: stale ? openedAt : clockNow(), colours: feed.colours, more: 0, stale: null };
  patch(
    element,
    stale && h("p", { key: "stale", class: "st-notice", role: "status", "data-testid": "panel-stale" }, clean(stale)),
    feed.mine.jobs !== null &&
      section(
        "mine",
        "My jobs",
        pages && h("a", { href: pages, target: "_blank" }, "all"),
        h("div", { draw: (node) => renderJobRows(node, rows, feed.links.pageOf) }),
      ),
    waiting.length > 0 &&
      section("line", "In line", null, h("ol", { class: "st-line-places" }, waiting.toSorted(byPlace).map(drawPlace))),
    feed.pool !== null &&
      section(
        "pool",
        "The pool",
        pages && h("a", { href: `${pages}pool`, target: "_blank" }, "more"),
        h("div", { draw: (node) => renderPoolGlance(node, { pool: feed.pool, mine }) }),
      ),
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
  stage(element, "st-status");
  element.dataset.testid = "pool-status";
  const draw = () =>
    patch(
      element,
      h("button", { key: "open", type: "button", title: "Show the pool", on: { click: open } }, statusWords(feed)),
    );
  const { stop } = feed.watchPool(draw);
  draw();
  return stop;
}

function statusWords(feed) {
  if (!isLive(feed) || feed.pool === null) return feed.connection.state === "away" ? "Pool: no answer" : "Pool: …";
  const { train_held: held, train_gpus: all } = feed.pool;
  return `Pool: ${held} of ${count(all, "GPU")} held`;
}
