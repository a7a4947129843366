/** Every drawing of the picture language on one page, and `window.gallery` for tests to draw with. */

import { bigPool, gpuUsage, history, job, jobs, log, NOW, points, pool, use } from "/story.js";
import { countsOf, sweep, sweeps, trialRow, trialRows } from "/sweep_story.js";
import { h, patch } from "/visuals/base/dom.js";
import { priorityWords } from "/visuals/base/job_words.js";
import * as words from "/visuals/base/words.js";
import { renderPoolBar } from "/visuals/charts/pool_bar.js";
import { renderProjectBar } from "/visuals/charts/project_bar.js";
import { renderTideChart } from "/visuals/charts/tide_chart.js";
import { TrialKeeper } from "/visuals/live/trial_keeper.js";
import { renderJobCard } from "/visuals/views/job_card.js";
import { renderJobRows } from "/visuals/views/job_rows.js";
import { renderLog } from "/visuals/views/log_view.js";
import { renderPoolGlance } from "/visuals/views/pool_glance.js";
import { renderSweepCard } from "/visuals/views/sweep_card.js";

const COLOURS = { vision: 0, nlp: 1, speech: 2 };
const calls = [];
const acting = (name) => ({
  pause: () => calls.push(["pause", name]),
  resume: () => calls.push(["resume", name]),
  cancel: () => calls.push(["cancel", name]),
  retry: () => calls.push(["retry", name]),
});

function section(id, title, draw) {
  return [h("h2", { key: `title ${id}` }, title), h("div", { key: id, id, draw })];
}

function card(name, data = {}) {
  const shown = jobs[name];
  const seen = shown.attempts.length
    ? points(
        42,
        [
          [1, 0],
          [2, 18],
        ].slice(0, shown.attempt),
      )
    : [];
  return h("article", {
    key: name,
    id: `card-${name}`,
    draw: (node) =>
      renderJobCard(
        node,
        { job: shown, now: NOW, points: seen, log, colour: COLOURS[shown.project], simulated: true, ...data },
        acting(name),
      ),
  });
}

function sweepCard(name) {
  const pageOf = (id) => `/jobs/${id}`;
  return h("article", {
    key: name,
    id: `sweep-${name}`,
    draw: (node) =>
      renderSweepCard(node, { ...sweeps[name], now: NOW, colour: 0, simulated: true, pageOf }, acting(name)),
  });
}

let untouched = false;
let shown = "";
const touch = () => {
  untouched = false;
};
const changes = new MutationObserver(touch);
for (const kind of ["focusin", "input", "scroll"]) addEventListener(kind, touch, { capture: true });

const frame = () => new Promise((shown) => requestAnimationFrame(shown));

/** All, or the sections of these ids, anew; drawn again only if anything has happened to them since. */
async function reset(wanted) {
  if (untouched && calls.length === 0 && String(wanted) === shown) return;
  changes.disconnect();
  document.body.replaceChildren(document.createElement("main"));
  delete document.documentElement.dataset.bsTheme;
  calls.length = 0;
  draw(document.querySelector("main"), wanted);
  shown = String(wanted);
  await frame().then(frame); // drawings by width follow
  changes.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  untouched = true;
}

function draw(main, wanted) {
  const sections = {
    glance: ["The pool at a glance", (node) => renderPoolGlance(node, { pool: pool(), mine: ["nlp"] })],
    bar: [
      "Pool bar",
      (node) =>
        renderPoolBar(
          node,
          { pool: pool(), usage: gpuUsage(0.97, 0.94, 0.4, 0.03, 0, 0) },
          { open: (id) => calls.push(["open", id]) },
        ),
    ],
    tide: ["Tide chart", (node) => renderTideChart(node, { history, colours: COLOURS })],
    cards: [
      "Job cards",
      (node) =>
        patch(
          node,
          Object.keys(jobs).map((name) => card(name)),
        ),
    ],
    sweeps: ["Sweeps", (node) => patch(node, Object.keys(sweeps).map(sweepCard))],
    rows: [
      "Jobs as rows",
      (node) =>
        renderJobRows(
          node,
          {
            jobs: [jobs.running, sweeps.running.job, sweeps.one.job],
            now: NOW,
            colours: new Map([["vision", 0]]),
            more: 0,
            stale: null,
          },
          () => null,
        ),
    ],
    project: ["Project bar", (node) => renderProjectBar(node, { project: pool().projects[0] })],
    log: ["Log", (node) => renderLog(node, { text: log, ended: false, ranks: 2, rank: 0 })],
    big: ["A larger pool", (node) => renderPoolBar(node, { pool: bigPool() })],
    none: ["Empty", (node) => renderPoolGlance(node, { pool: pool({ projects: [] }) })],
  };
  patch(
    main,
    (wanted ?? Object.keys(sections)).map((id) => section(id, ...sections[id])),
  );
}

await reset();

window.gallery = {
  reset,
  again: (wanted) => draw(document.querySelector("main"), wanted),
  bigPool,
  calls,
  countsOf,
  sweep,
  sweeps,
  trialRow,
  trialRows,
  renderSweepCard,
  renderJobRows,
  TrialKeeper,
  gpuUsage,
  history,
  job,
  jobs,
  log,
  NOW,
  points,
  pool,
  priorityWords,
  renderJobCard,
  renderLog,
  renderPoolBar,
  renderPoolGlance,
  renderTideChart,
  use,
  words,
};
