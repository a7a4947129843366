/** What if the pool had other nodes, quotas or rules: now, or in the last weeks, simulated beside the record. */

import { changesAsked, changesOfNow, changeWords, drawChanges, noChanges } from "./past/changes.js";
import { drawComparison } from "./past/comparison.js";
import { shiftWords } from "./quotas/what_if.js";
import { attempted, call, section } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { button, emptyState, progressTrack } from "./visuals/base/glyphs.js";
import { count } from "./visuals/base/words.js";

const DAY_S = 86_400;
const ASK_AFTER_MS = 700;
const LOOK_AFTER_MS = 700;
const PERIODS = [
  ["now", "Now"],
  ["7", "Last 7 days"],
  ["30", "Last 30 days"],
  ["90", "Last 90 days"],
];

const shown = { pool: null, period: "30", changes: noChanges(), run: null, words: "", now: "", refused: null };
let timer = null;
let question = 0;

start();

async function start() {
  draw();
  shown.pool = await attempted(() => call("GET", "history/what-if"));
  draw();
  if (shown.pool?.since) ask();
}

function periods() {
  return PERIODS.filter(([name]) => name !== "now" || shown.pool.whole);
}

function choose(change) {
  Object.assign(shown, change);
  later();
}

function choosePeriod(period) {
  choose({ period, changes: period === "now" ? changesOfNow(shown.changes) : shown.changes });
}

function edit(change) {
  Object.assign(shown.changes, change);
  later();
}

/** Asks once the controls have come to rest. */
function later() {
  clearTimeout(timer);
  question += 1;
  timer = setTimeout(ask, ASK_AFTER_MS);
  draw();
}

async function ask() {
  const own = ++question;
  const fresh = () => own === question;
  Object.assign(shown, { refused: null, words: changeWords(shown.changes) });
  try {
    if (shown.period === "now") await askNow(fresh);
    else await askPast(fresh);
  } catch (error) {
    if (fresh()) Object.assign(shown, { run: null, now: "", refused: error });
  }
  if (fresh()) draw();
}

async function askNow(fresh) {
  const { nodes, quota } = shown.changes;
  const added = Object.entries(nodes).flatMap(([type, number]) =>
    Array.from({ length: number }, (_, place) => [
      `more-${type}-${place + 1}`,
      { gpus: shown.pool.gpus[type], gpu_type: type },
    ]),
  );
  const several = Object.keys(shown.pool.nodes).length > 1;
  const projects = Object.entries(quota).map(([name, types]) => [
    name,
    { quota: several ? { ...shown.pool.quota[name], ...types } : Object.values(types)[0] },
  ]);
  const body = { projects: Object.fromEntries(projects), nodes: Object.fromEntries(added), starts: [] };
  const found = await call("POST", "forecast", body);
  if (fresh()) Object.assign(shown, { run: null, now: shiftWords(found.shifts, "With this") });
}

async function askPast(fresh) {
  const body = { days: Number(shown.period), changes: changesAsked(shown.changes) };
  let run = await call("POST", "history/what-if", body);
  while (fresh()) {
    Object.assign(shown, { run, now: "" });
    draw();
    if (run.state !== "waiting" && run.state !== "running") return;
    await new Promise((done) => setTimeout(done, LOOK_AFTER_MS));
    if (fresh()) run = await call("GET", `history/what-if/${run.id}`);
  }
}

async function cancel() {
  clearTimeout(timer);
  question += 1;
  const run = await attempted(() => call("DELETE", `history/what-if/${shown.run.id}`));
  if (run) shown.run = run;
  draw();
}

function reset() {
  choose({ changes: noChanges() });
}

function draw() {
  const page = document.getElementById("page");
  const { pool } = shown;
  if (pool) page.removeAttribute("aria-busy");
  patch(page, pool ? drawPage(pool) : h("p", { class: "st-muted" }, "Loading…"));
}

function drawPage(pool) {
  if (!pool.since)
    return emptyState(
      "Nothing is recorded yet.",
      "The pool records its nodes, quotas and jobs from now on. Come back when jobs have run.",
    );
  return h(
    "div",
    { key: "what if", class: "st-whatif" },
    h(
      "div",
      { key: "controls", class: "st-whatif-controls" },
      drawPeriod(pool),
      drawChanges(pool, shown.changes, { now: shown.period === "now", change: edit }),
      button("reset", "Reset", reset, { disabled: !changeWords(shown.changes) }),
    ),
    h(
      "div",
      { key: "answer", class: "st-whatif-answer", "aria-live": "polite", "data-testid": "answer" },
      drawAnswer(),
    ),
  );
}

function drawPeriod(pool) {
  const days = Math.max(0, pool.now - pool.since) / DAY_S;
  const short = shown.period !== "now" && days < Number(shown.period);
  return h(
    "div",
    { key: "period", class: "st-whatif-row st-whatif-choice" },
    h("label", { for: "whatif-period" }, "When"),
    h(
      "select",
      {
        id: "whatif-period",
        class: "form-select",
        value: shown.period,
        "data-testid": "period",
        on: { change: ({ target }) => choosePeriod(target.value) },
      },
      periods().map(([name, words]) => h("option", { key: name, value: name, selected: name === shown.period }, words)),
    ),
    short && h("p", { key: "short", class: "st-muted", "data-testid": "young" }, youngWords(days)),
    !pool.whole &&
      h("p", { key: "own", class: "st-muted" }, "You see the projects that you administer, and all others together."),
  );
}

function youngWords(days) {
  const whole = Math.floor(days);
  return whole ? `The pool has ${count(whole, "day")} of history.` : "The pool has less than a day of history.";
}

function drawAnswer() {
  const { run, refused, now, words } = shown;
  if (refused) return emptyState("This cannot be calculated.", refused.message);
  if (now) return h("p", { key: "now", class: "st-whatif-headline", "data-testid": "headline" }, now);
  if (!run) return h("p", { key: "loading", class: "st-muted" }, "Loading…");
  if (run.comparison) return drawComparison(run.comparison, words);
  if (run.state === "failed") return emptyState("This cannot be calculated.", run.why);
  if (run.state === "cancelled") return emptyState("Cancelled.", "Move a control to ask again.");
  const part = run.state === "waiting" ? "Waits for another calculation." : "Simulating the past…";
  return section(
    "progress",
    part,
    progressTrack(run.progress, `${Math.round(100 * run.progress)} %`),
    button("cancel", "Cancel", cancel),
  );
}
