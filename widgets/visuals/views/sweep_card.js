/** The live card of a sweep: its state, the best trial, the parameters, the table of trials, and actions. */

import { h, memory, patch } from "../base/dom.js";
import { colourOf, simulatedMark, stage } from "../base/glyphs.js";
import { drawWhy, jobHeadline, requestWords } from "../base/job_words.js";
import { endedTrials, parametersWords, populationWords, sweepGpuWords, trialsWords } from "../base/sweep_words.js";
import { matchingRows } from "../base/trials.js";
import { amount, clean, count } from "../base/words.js";
import { renderParameterChart } from "../charts/parameter_chart.js";
import { trialCounts } from "../charts/trial_counts.js";
import { cardActions, cardHeader, noteLine } from "./card_parts.js";
import { rerunForm, rerunLine, submitterLine } from "./rerun_form.js";
import { bestSchedule } from "./schedule.js";
import { trialPauses } from "./trial_pauses.js";
import { markFrames, TABLE_BEGIN, trialTable } from "./trial_table.js";

const MOST_CELLS = 32;
const NO_METRIC =
  'No metric is named, so no trial is the best one. Name one with pool.sweep(…, metric="loss"), and report it with job.report(loss=…) or return it.';

/**
 * Draws a sweep's card.
 * @param data `job`: Job with `trials`; `rows`: list of TrialRow, or null while unknown; `now`; `notice`;
 *   `colour`, `simulated`, `href`, `target`, `blocked`, `editor` as for a job's card; `pageOf` returns the address of a
 *   job's own page by its id, or null; `compareOf` that of the comparison of jobs, left out if there is none;
 *   `logOf` the end of a trial's log by its id, left out if it cannot be read
 * @param actions `pause()`, `resume()`, `cancel()`, `retry()`, `rerun()`, `edit()`, each left out if not permitted
 */
export function renderSweepCard(element, data, actions = {}) {
  const { job, now, rows, colour } = data;
  const { trials } = job;
  const state = memory(element, { confirming: null, asked: null, view: TABLE_BEGIN, found: {} });
  const again = () => renderSweepCard(element, data, actions);
  const choose = (changes) => {
    state.view = { ...state.view, ...changes };
    again();
  };
  const matching = rows && found(state, rows);
  const shown = {
    rows,
    matching,
    metric: trials.metric || "value",
    goal: trials.goal,
    best: trials.best?.trial,
    colour,
    pageOf: data.pageOf,
    compareOf: data.compareOf,
    logOf: data.logOf,
    target: data.target,
  };
  stage(element, "st-card", { testid: "job-card", job: job.id, state: job.state });
  patch(
    element,
    cardHeader(data, aboutSweep(job)),
    h("p", { key: "headline", class: "st-sentences", "data-testid": "job-headline" }, jobHeadline(job, now)),
    drawWhy(job, now),
    noteLine(job),
    rerunLine(job, data.pageOf, data.target),
    submitterLine(job, data.pageOf, data.target),
    drawStanding(trials, data),
    trialCounts(trials, colour),
    trials.gpus > 0 && drawTrialGpus(trials, colour, data.simulated),
    job.error &&
      h("pre", { key: "error", class: "st-error", role: "alert", "data-testid": "job-error" }, clean(job.error)),
    rows && trialPauses(rows, now),
    rows && h("div", { key: "chart", draw: (node) => renderParameterChart(node, { ...shown, rows: matching }) }),
    rows && bestSchedule(trials, rows),
    rows && trialTable(shown, state.view, choose),
    rows === null &&
      !data.blocked &&
      h("p", { key: "loading", class: "st-muted", role: "status" }, "Loading the trials…"),
    rerunForm(data.editor),
    cardActions(data, actions, state, again, sweepButtons(job)),
  );
  markFrames(element);
}

/** The rows that match the filter: the same array as long as rows and filter are unchanged. */
function found(state, rows) {
  const { state: wanted, text } = state.view;
  const kept = state.found;
  if (kept.rows !== rows || kept.wanted !== wanted || kept.text !== text)
    state.found = { rows, wanted, text, matching: matchingRows(rows, wanted, text) };
  return state.found.matching;
}

function aboutSweep(job) {
  const { trials } = job;
  return [
    h("span", { key: "ask" }, `${count(trials.number, "trial")} with ${requestWords(job)} each`),
    ...populationWords(trials).map((words, place) => h("span", { key: `population ${place}` }, words)),
    trials.at_most && h("span", { key: "most" }, `at most ${amount(trials.at_most)} at a time`),
    trials.metric &&
      h("span", { key: "metric" }, `${trials.goal === "maximize" ? "largest" : "smallest"} ${clean(trials.metric)}`),
  ];
}

/** `12 of 60 trials, best 0.031 (trial 17: lr=0.01, depth=3)`, or the reason if there is no best one. */
function drawStanding(trials, { rows, pageOf, target }) {
  const { best } = trials;
  const ended = endedTrials(trials);
  const valued = rows?.some(({ value }) => Number.isFinite(value));
  const words = best && parametersWords(best.parameters);
  const href = best && pageOf ? pageOf(best.job) : null;
  const name = best && `trial ${best.trial}`;
  return [
    h(
      "p",
      { key: "standing", class: "st-standing", "data-testid": "sweep-standing" },
      h("strong", { key: "trials" }, trialsWords(trials)),
      best && [
        ", best ",
        h("strong", { key: "best" }, amount(best.value)),
        " (",
        href ? h("a", { key: "link", href, target }, name) : h("span", { key: "trial" }, name),
        words && `: ${words}`,
        ")",
      ],
    ),
    !best &&
      ended === 0 &&
      h(
        "p",
        { key: "none", class: "st-muted st-standing-note", "data-testid": "sweep-none" },
        `No trial has ended yet.${trials.goal ? " The best one is shown as soon as one has succeeded." : ""}`,
      ),
    !best &&
      trials.goal &&
      !trials.metric &&
      !valued &&
      h("p", { key: "metric", class: "st-muted st-standing-note", "data-testid": "sweep-no-metric" }, NO_METRIC),
  ];
}

function drawTrialGpus(trials, colour, simulated) {
  const { gpus, borrowed } = trials;
  const cells = Array.from({ length: Math.min(gpus, MOST_CELLS) }, (_, place) => place >= gpus - borrowed);
  const words = sweepGpuWords(trials);
  return h(
    "div",
    { key: "held", class: "st-held", style: colourOf(colour), "data-testid": "sweep-gpus" },
    gpus <= MOST_CELLS &&
      h(
        "span",
        { key: "cells", class: "st-held-cells", "aria-hidden": "true" },
        cells.map((hatched, place) =>
          h("span", {
            key: place,
            class: `st-cell ${hatched ? "st-hatched" : "st-solid"}`,
            "data-testid": "held-gpu",
            "data-borrowed": String(hatched),
          }),
        ),
      ),
    h("span", { key: "words", class: "st-muted" }, words),
    simulatedMark(simulated),
  );
}

/** The words of the buttons of a sweep, see `cardActions`. */
export function sweepButtons(job) {
  const { trials } = job;
  const left = trials.number - endedTrials(trials);
  return {
    standing: `${trials.failed} ${trials.number}`,
    erases: true,
    cancel: "Cancel the rest…",
    question: [
      `Cancel the ${count(left, "trial")} of ${job.name ? `“${clean(job.name)}”` : "this sweep"} that ${left === 1 ? "has" : "have"} not ended?`,
      "Ended trials stay.",
      ...(trials.running ? ["What runs has its grace period to end, then it is killed."] : []),
    ].join(" "),
    keep: "Keep them",
    confirm: "Cancel the rest",
    more: trials.failed > 0 ? [["retry", `Retry failed (${amount(trials.failed)})`]] : [],
  };
}
