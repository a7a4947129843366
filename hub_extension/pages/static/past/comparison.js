/** The pool as it was beside the pool that might have been. */

import { h } from "../visuals/base/dom.js";
import { simulatedMark } from "../visuals/base/glyphs.js";
import { amount, clean, day, duration, LONGEST_HEADLINE, money } from "../visuals/base/words.js";

const UNIT_DIGITS = 10;
const FIGURES = {
  wait_p50_s: ["median wait", duration, "half of the jobs did not wait longer for their first start"],
  wait_p95_s: ["95 % wait", duration, "95 % of the jobs did not wait longer for their first start"],
  finished: ["finished", amount, "jobs that ended by themselves"],
  utilization: ["utilisation", percent, "GPU-hours held of those that the pool had"],
  gpu_hours: ["GPU-hours", hours, "GPU-hours held"],
  pauses: ["pauses", amount, "jobs that were paused for others"],
  lost_gpu_hours: ["lost h", hours, "GPU-hours of resumed and paused attempts that came to nothing"],
  cost: ["cost", money, "of the nodes; of a project that of what it held"],
};

/** Draws an answer: its sentence, the figures of the pool, and those of each project. */
export function drawComparison(found, words) {
  const { start, end, headline, recorded, unchanged, changed, notes, caveats, deviation, currency, simulated } = found;
  const days = [start, end].map(day);
  return h(
    "div",
    { key: "comparison", "data-testid": "comparison" },
    h("h2", { class: "st-whatif-headline", "data-testid": "headline" }, headlineWords(clean(headline), words)),
    h(
      "p",
      { class: "st-muted" },
      `${words || "The same pool"}, from ${days[0]} to ${days[1]}. Both pools are calculated from the recorded jobs. `,
      simulatedMark(simulated),
    ),
    deviation ? h("p", { key: "deviation", "data-testid": "deviation" }, clean(deviation)) : null,
    caveats.map((words) => h("p", { key: words, "data-testid": "caveat" }, clean(words))),
    drawTotals(unchanged.total, changed.total, currency),
    drawProjects("By project: as it was, and as it would have been", unchanged, changed, currency),
    h(
      "details",
      { key: "recorded", class: "st-whatif-notes", "data-testid": "recorded" },
      h("summary", {}, "The record, and the pool as it was, simulated"),
      drawProjects("By project: recorded, and simulated as it was", recorded, unchanged, currency),
    ),
    h(
      "details",
      { class: "st-whatif-notes" },
      h("summary", {}, "What the simulation leaves out"),
      h(
        "ul",
        { "data-testid": "notes" },
        notes.filter((note) => !caveats.includes(note)).map((note) => h("li", { key: note }, clean(note))),
      ),
    ),
  );
}

/** The sentence of an answer after its question, if both are short enough for a headline. */
function headlineWords(headline, words) {
  const whole = `${words}: ${headline[0].toLowerCase()}${headline.slice(1)}`;
  return words && whole.length <= LONGEST_HEADLINE ? `${whole[0].toUpperCase()}${whole.slice(1)}` : headline;
}

function known(before, after) {
  return Object.keys(FIGURES).filter((name) => before[name] !== null || after[name] !== null);
}

/** The words above a figure; those of costs name their currency. */
function titleOf(name, currency) {
  return name === "cost" && currency ? `${FIGURES.cost[0]}, ${clean(currency)}` : FIGURES[name][0];
}

function drawTotals(before, after, currency) {
  return h(
    "dl",
    { key: "totals", class: "st-report-numbers", "data-testid": "totals" },
    known(before, after).map((name) => {
      const hint = FIGURES[name][2];
      return h(
        "div",
        { key: name, title: hint },
        h("dt", {}, titleOf(name, currency)),
        h("dd", {}, pair(name, before[name], after[name])),
      );
    }),
  );
}

function drawProjects(caption, before, after, currency) {
  const rows = Object.keys(after.projects).map((name) => [clean(name), before.projects[name], after.projects[name]]);
  if (after.others) rows.push(["all others", before.others, after.others]);
  const columns = known(before.total, after.total);
  return h(
    "div",
    { key: caption, class: "table-responsive st-report-frame", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      { class: "table st-table st-report-table", "data-testid": "projects" },
      h("caption", { class: "visually-hidden" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "project"),
          columns.map((name) =>
            h("th", { key: name, scope: "col", class: "st-number", title: FIGURES[name][2] }, titleOf(name, currency)),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map(([title, was, now]) =>
          h(
            "tr",
            { key: title },
            h("th", { scope: "row" }, title),
            columns.map((name) =>
              h(
                "td",
                { key: name, "data-label": titleOf(name, currency), class: "st-number" },
                pair(name, was[name], now[name]),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Two values, or one if both read the same; a changed one stands out. */
function pair(name, before, after) {
  const words = [before, after].map((value) => (value === null ? "–" : FIGURES[name][1](value)));
  if (words[0] === words[1]) return words[0];
  return [`${words[0]} → `, h("strong", {}, words[1])];
}

function percent(part) {
  return `${(100 * part).toFixed(1)} %`;
}

function hours(value) {
  return amount(value < UNIT_DIGITS ? Math.round(value * UNIT_DIGITS) / UNIT_DIGITS : Math.round(value));
}
