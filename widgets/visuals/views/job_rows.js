/** Jobs as rows: state, name, GPUs, progress, and the most important sentence. */

import { h, memory, patch } from "../base/dom.js";
import { colourOf, emptyState, isFinal, jobName, progressTrack, stage, stateMark } from "../base/glyphs.js";
import { askWords, errorWords, jobHeadline, reasonAt, stepWords } from "../base/job_words.js";
import { finishedTrials, shortTrialsWords, sweepGpuWords } from "../base/sweep_words.js";
import { clean, count } from "../base/words.js";
import { cardActions } from "./card_parts.js";
import { buttonWords } from "./job_card.js";
import { sweepButtons } from "./sweep_card.js";

/**
 * Draws jobs as rows.
 * @param data `jobs`: list of Job; `now`; `colours`: by project; `more`: the number of jobs left out; `stale`:
 *   why the list may be old, in words; `none`: what an empty list says, left out if no filter chose
 * @param pageOf returns the address of a job's own page by its id, or null
 * @param offered `offered(job)` returns the `actions` that the viewer may take, the `notice` of the last one, and whether
 *   all are `blocked`, for a reason that the page says; left out if rows have none
 */
export function renderJobRows(element, { jobs, now, colours, more, stale, none }, pageOf, offered = null) {
  stage(element, "st-jobs", { testid: "job-rows" });
  patch(
    element,
    jobs.length > 0 &&
      h(
        "ul",
        { key: "rows", class: "st-job-rows" },
        jobs.map((job) => drawRow(job, now, colours, pageOf(job.id), offered)),
      ),
    !jobs.length &&
      !stale &&
      !none &&
      emptyState("No jobs yet.", "Send one with pool.submit(…), or a script from the file browser's context menu."),
    !jobs.length && none && emptyState(clean(none)),
    more > 0 && h("p", { key: "more", class: "st-muted" }, `… and ${count(more, "job")} more.`),
    stale && h("p", { key: "stale", class: "st-notice", role: "status", "data-testid": "rows-stale" }, clean(stale)),
  );
}

function drawRow(job, now, colours, href, offered) {
  const name = jobName(job);
  return h(
    "li",
    {
      key: job.id,
      class: "st-job-row",
      "data-testid": "job-row",
      "data-job": job.id,
      "data-state": job.state,
      style: colourOf(colours.get(job.project)),
    },
    h(
      "span",
      { key: "name", class: "st-job-name", title: clean(job.name) },
      href ? h("a", { href, target: "_blank" }, name) : name,
    ),
    stateMark(job, null, true),
    job.trials
      ? progressTrack(finishedTrials(job.trials) / job.trials.number, shortTrialsWords(job.trials))
      : drawProgress(job.progress),
    h(
      "p",
      { key: "why", class: "st-muted st-job-why", title: clean(reasonAt(job.reason, now)?.text) },
      job.trials ? sweepWords(job) : job.held.length ? count(job.held.length, "GPU") : askWords(job),
      " · ",
      jobHeadline(job, now),
    ),
    job.state === "failed" &&
      errorWords(job) &&
      h(
        "p",
        { key: "error", class: "st-job-error", title: errorWords(job), "data-testid": "row-error" },
        errorWords(job),
      ),
    offered &&
      !isFinal(job.state) &&
      h("div", { key: "actions", class: "st-row-actions", draw: (node) => drawActions(node, job, offered(job)) }),
  );
}

/** The buttons of a card, in a row. */
function drawActions(element, job, { actions, notice, blocked }) {
  const state = memory(element, { confirming: null, asked: null });
  const again = () => drawActions(element, job, { actions, notice, blocked });
  const words = job.trials ? sweepButtons(job) : buttonWords(job);
  patch(element, cardActions({ job, notice, blocked }, actions, state, again, words));
}

function drawProgress(progress) {
  const { step, of } = progress;
  if (!Number.isFinite(of) || !(of > 0) || !Number.isFinite(step)) return null;
  return progressTrack(step / of, stepWords(progress));
}

function sweepWords({ trials }) {
  const held = trials.gpus ? ` · ${sweepGpuWords(trials)}` : "";
  return h("span", { key: "trials", "data-testid": "row-trials" }, `${shortTrialsWords(trials)}${held}`);
}
