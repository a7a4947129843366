/** The live card of a job: state, reason, progress, loss, GPUs and their use, log, and actions. */

import { h, memory, patch } from "../base/dom.js";
import { colourOf, progressTrack, simulatedMark, stage } from "../base/glyphs.js";
import { drawUse } from "../base/gpu_use.js";
import { askWords, drawWhy, errorWords, jobHeadline, optionsOf, stepWords } from "../base/job_words.js";
import { trialWords } from "../base/sweep_words.js";
import { clean, count, duration } from "../base/words.js";
import { renderJobLife } from "../charts/job_life.js";
import { renderLossCurve, upToDate } from "../charts/loss_curve.js";
import { drawMetricNames } from "../charts/metric_names.js";
import { argumentsLine } from "./argument_list.js";
import { cardActions, cardHeader, noteLine } from "./card_parts.js";
import { logTail, shownLog } from "./log_view.js";
import { rerunForm, rerunLine, submitterLine, testLine } from "./rerun_form.js";

/**
 * Draws a job's card.
 * @param data `job`: Job; `now`; `points`: list of Point; `log`: text, or null to leave it out; `reading`: why
 *   there is no text yet, in words, if the log was not read; `notice`: the
 *   outcome of the last action; `colour`: of its project; `simulated`: whether its GPUs are; `href`: the job's own page,
 *   opened in `target`; `boardOf` returns the address of the TensorBoard of jobs by their ids; `pageOf` returns the address of another job's page by its id, or null; `blocked`: the reason why
 *   actions are disabled at the moment; `editor`: the `RerunEditor` of the job, if it can be edited here;
 *   `checkpoints`: the fold of its checkpoints;
 *   `outputs`: the `OutputBrowser` of its files, if they can be fetched and are not listed elsewhere; `results`: the one
 *   that reads what its function returned, if it can be fetched
 * @param actions `pause()`, `resume()`, `cancel()`, `rerun()`, `edit()`, `terminal()`, `stack()`, each left out if not permitted
 */
export function renderJobCard(element, data, actions = {}) {
  const { job, now } = data;
  const state = memory(element, { confirming: null, asked: null, metric: null });
  const again = () => renderJobCard(element, data, actions);
  const wrong = errorWords(job);
  stage(element, "st-card", { testid: "job-card", job: job.id, state: job.state });
  patch(
    element,
    cardHeader(data, aboutWords(job)),
    h("p", { key: "headline", class: "st-sentences", "data-testid": "job-headline" }, jobHeadline(job, now)),
    drawWhy(job, now),
    argumentsLine(job),
    noteLine(job),
    rerunLine(job, data.pageOf, data.target),
    submitterLine(job, data.pageOf, data.target),
    testLine(job, data.pageOf, data.target),
    wrong && h("pre", { key: "error", class: "st-error", role: "alert", "data-testid": "job-error" }, wrong),
    drawProgress(job, data.colour),
    drawHeld(job, data.colour, data.simulated),
    drawUse(job.usage, data.colour),
    h("div", {
      key: "curve",
      draw: (node) =>
        renderLossCurve(node, {
          points: data.points ?? [],
          name: state.metric ?? undefined,
          colour: data.colour,
          progress: job.progress,
        }),
    }),
    drawMetricNames(upToDate(data.points ?? [], job.progress), state.metric, (name) => {
      state.metric = name;
      again();
    }),
    job.attempts.length > 0 &&
      h("div", { key: "life", draw: (node) => renderJobLife(node, { job, now, colour: data.colour }) }),
    data.results?.drawResult(job),
    Boolean(data.log || (typeof data.log === "string" && job.attempts.length)) &&
      drawLog(shownLog(state, data.log), job.ended !== null, data.reading),
    job.attempts.length > 0 && data.outputs?.drawFold(job),
    job.attempts.length > 0 && data.checkpoints,
    rerunForm(data.editor),
    cardActions(data, actions, state, again, {
      ...buttonWords(job),
      board: boardOf(data),
      expanded: { stack: String(Boolean(data.stack?.isOpen)) },
    }),
    data.stack?.draw(),
  );
}

/** The address of the job's TensorBoard, if it is known that it would show something. */
function boardOf({ job, points, outputs, results, boardOf: address }) {
  const reports = points?.some(({ values }) => Object.keys(values).length > 0);
  return (reports || outputs?.hasEventFiles || results?.hasEventFiles) && address?.([job.id]);
}

function aboutWords(job) {
  return [
    h("span", { key: "ask" }, askWords(job)),
    job.attempt > 1 && h("span", { key: "attempt", "data-testid": "job-attempt" }, `attempt ${job.attempt}`),
    optionsOf(job).retries > 0 && job.failures > 0 && h("span", { key: "failures" }, failureWords(job)),
    Number.isInteger(job.trial) &&
      h(
        "span",
        { key: "trial", "data-testid": "job-trial" },
        trialWords({ trial: job.trial, parameters: job.outcome?.parameters }),
      ),
  ];
}

/** The words of the buttons of a job, see `cardActions`. */
export function buttonWords(job) {
  return {
    standing: job.attempt,
    erases: !job.sweep && !job.tests,
    cancel: "Cancel…",
    question: `Cancel ${job.name ? `“${clean(job.name)}”` : "this job"}? ${graceWords(job)}This cannot be undone.`,
    keep: job.state === "running" ? "Keep running" : "Keep it",
    confirm: "Cancel the job",
    aside: [
      ["terminal", "Terminal"],
      ["stack", "Where is it now?"],
    ],
  };
}

/**
 * How long a job that holds GPUs has to end: `It has 30 s to end, then it is killed. `. A cancel gives no more time to
 * one that pauses. Outputs saved earlier do not say.
 */
function graceWords({ state, grace }) {
  if (!(grace > 0) || !["starting", "running", "pausing"].includes(state)) return "";
  const from = state === "pausing" ? "from the request to pause" : "to end";
  return `It has ${duration(grace)} ${from}, then it is killed. `;
}

function failureWords(job) {
  const { state, failures } = job,
    { retries } = optionsOf(job);
  return state === "failed"
    ? `${count(retries, "retry", "retries")} used up`
    : `retry ${Math.min(failures, retries)} of ${retries}`;
}

function drawProgress(job, colour) {
  const { step, of } = job.progress;
  const words = stepWords(job.progress);
  if (!words) return null;
  const share = Number.isFinite(of) && of > 0 ? Math.min(1, Math.max(0, step / of)) : null;
  const percent = share === null ? null : Math.floor(100 * share);
  return h(
    "div",
    { key: "progress", class: "st-progress", "data-testid": "job-progress" },
    share !== null && progressTrack(share, words, { style: colourOf(colour) }),
    h("span", { key: "words", class: "st-progress-words" }, words, percent === null ? "" : ` · ${percent} %`),
  );
}

function drawHeld(job, colour, simulated) {
  if (!job.held.length) return null;
  const borrowed = job.held.filter((gpu) => gpu.borrowed).length;
  const kind = job.gpu_type ? `${clean(job.gpu_type)} GPU` : "GPU";
  return h(
    "div",
    { key: "held", class: "st-held", style: colourOf(colour) },
    h(
      "span",
      { key: "cells", class: "st-held-cells", role: "list", "aria-label": "GPUs held" },
      job.held.map((gpu) => drawHeldGpu(gpu, job.state)),
    ),
    h(
      "span",
      { key: "words", class: "st-muted" },
      borrowed
        ? `${borrowed} of ${count(job.held.length, kind)} borrowed`
        : `${count(job.held.length, kind)} within quota`,
    ),
    simulatedMark(simulated),
  );
}

function drawHeldGpu(gpu, state) {
  const words = `${clean(gpu.label)} on ${clean(gpu.node)}${gpu.borrowed ? ", borrowed" : ""}`;
  const moving = state === "pausing" || state === "starting" ? ` st-${state}` : "";
  return h("span", {
    key: gpu.uuid || gpu.label,
    class: `st-cell ${gpu.borrowed ? "st-hatched" : "st-solid"}${moving}`,
    role: "listitem",
    title: words,
    "aria-label": words,
    "data-testid": "held-gpu",
    "data-borrowed": String(gpu.borrowed),
  });
}

function drawLog(log, ended, reading) {
  const lines = log ? log.replace(/\n$/, "").split("\n").length : 0;
  return h(
    "details",
    { key: "log", class: "st-log-fold", "data-testid": "job-log", on: { toggle: (event) => showEnd(event.target) } },
    h(
      "summary",
      { key: "summary" },
      "Log",
      h(
        "span",
        { class: "st-muted" },
        reading
          ? " · not read yet"
          : lines
            ? ` · last ${count(lines, "line")}`
            : ended
              ? " · empty"
              : " · no lines yet",
      ),
    ),
    logTail(log, ended, reading),
  );
}

function showEnd(fold) {
  const log = fold.querySelector("pre");
  if (fold.open) log.scrollTop = log.scrollHeight;
}
