/** The home page of administrators: numbers, what needs them, projects, nodes, the next days, and the longest waits. */

import { drawCalendar } from "./home/calendar.js";
import { NeedsList } from "./home/needs_list.js";
import { drawNodeCells } from "./home/node_cells.js";
import { drawNumberCards } from "./home/number_cards.js";
import { ProjectPanel } from "./home/project_panel.js";
import { ProjectTree } from "./home/project_tree.js";
import { RowsBelow } from "./home/rows_below.js";
import { LongestWaits } from "./home/waits.js";
import { attempted, call, followEvents, section } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { keepingFocus } from "./visuals/base/focus.js";
import { emptyState, simulatedMark } from "./visuals/base/glyphs.js";
import { calmly, inOrder, oncePerFrame } from "./visuals/base/pace.js";
import { tips } from "./visuals/base/tip.js";
import { clockNow } from "./visuals/base/words.js";

const SOON_S = 5;
const ANYWAY_MS = 60_000;
const WAITING_READ = 100;

const shown = { pool: null, home: null, jobs: null, at: 0 };
const redraw = oncePerFrame(draw);
const panel = new ProjectPanel(redraw);
const tree = new ProjectTree(redraw, (name) => panel.open(name));
const needs = new NeedsList(redraw, () => rereadSoon());
const waits = new LongestWaits(redraw, () => rereadSoon());
const below = new RowsBelow(redraw);
const read = inOrder(ask, take);
const rereadSoon = calmly(read, SOON_S);

start();

async function start() {
  await read();
  followEvents({ pool: hear, admin: rereadSoon, again: rereadSoon });
  setInterval(() => document.hidden || read(), ANYWAY_MS);
  document.addEventListener("visibilitychange", () => document.hidden || rereadSoon());
}

async function ask() {
  const waiting = new URLSearchParams({ state: "queued,paused", order: "-newest", limit: WAITING_READ, starts: 0 });
  const [pool, home, list, jobs] = await Promise.all([
    attempted(() => call("GET", "pool")),
    attempted(() => call("GET", "home")),
    attempted(() => call("GET", "needs")),
    attempted(() => call("GET", `jobs?${waiting}`)),
  ]);
  return { pool, home, list, jobs };
}

function take({ pool, home, list, jobs }) {
  if (pool && pool.seq >= (shown.pool?.seq ?? 0)) shown.pool = pool;
  shown.home = home ?? shown.home;
  if (list) needs.take(list);
  if (jobs) shown.jobs = jobs.items;
  redraw();
}

function hear(pool) {
  shown.pool = pool;
  rereadSoon();
  redraw();
}

function draw() {
  const { pool, home, jobs } = shown;
  if (!pool || !home) return;
  const page = document.getElementById("page");
  const now = clockNow();
  page.removeAttribute("aria-busy");
  page.classList.add("st-home");
  tips(page);
  keepingFocus(page, () =>
    patch(
      page,
      h("div", { key: "numbers", class: "st-home-numbers" }, drawNumberCards(home), simulatedMark(pool.simulated)),
      area("needs", "Needs you", needs.draw(now), needs.count),
      area("projects", "Departments and teams", projectsOr(pool, home, now)),
      area("side", "Nodes", drawNodeCells(pool), drawCalendar(home.calendar, now)),
      area("waits", "Longest waits", waits.draw(jobs, pool, now)),
      panel.draw(pool, home, now),
    ),
  );
  below.count();
}

function projectsOr(pool, home, now) {
  if (pool.projects.length) return tree.draw(pool, home, now);
  return emptyState("There are no projects yet.", "The first one is made on the page Projects and quotas.");
}

/** A part of the page that scrolls by itself where all parts are on one screen. */
function area(name, title, content, more = null) {
  const extra = Number.isInteger(more) ? null : more;
  const words = Number.isInteger(more) && more > 0 ? `${title} (${more})` : title;
  const inside = h(
    "div",
    {
      key: "inside",
      class: below.goesOn(name) ? "st-home-scroll st-home-cut" : "st-home-scroll",
      tabindex: 0,
      role: "group",
      "aria-label": title,
      "data-rows": name,
    },
    content,
    extra,
  );
  return h(
    "div",
    { key: name, class: `st-home-area st-home-${name}` },
    section(name, words, inside),
    below.draw(name, title),
  );
}
