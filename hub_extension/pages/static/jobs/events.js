/** The events of a job in order: from its submission through its attempts to its end. */

import { h } from "../visuals/base/dom.js";
import { isEnding, when } from "../visuals/base/glyphs.js";
import { sentencesOf } from "../visuals/base/job_words.js";
import { amount, clean, count } from "../visuals/base/words.js";

const ENDS = {
  paused: "paused",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "was cancelled",
  lost: "was lost",
};

/** The events of a job, oldest first: each with its time and its words. */
export function eventsOf(job) {
  const events = [
    { at: job.submitted, words: `Submitted by “${clean(job.user)}” for the project “${clean(job.project)}”.` },
  ];
  for (const attempt of job.attempts) {
    const name = `Attempt ${attempt.number}`;
    events.push({
      at: attempt.created,
      words: [
        attempt.gpus.length ? `${name} was given ${count(attempt.gpus.length, "GPU")}.` : `${name} was begun.`,
        ...sentencesOf(attempt.why),
      ].join(" "),
    });
    if (attempt.started) events.push({ at: attempt.started, words: `${name} ${startedWords(attempt)}.` });
    if (attempt.saved) events.push({ at: attempt.saved, words: `${name} saved its latest checkpoint.` });
    if (attempt.asked && !attempt.ended) events.push({ at: attempt.asked, words: askedWords(job) });
    if (attempt.ended)
      events.push({
        at: attempt.ended,
        words: [`${name} ${ENDS[attempt.state] ?? clean(attempt.state)}.`, ...sentencesOf(attempt.ended_why)].join(" "),
      });
  }
  if (job.ended && !job.attempts.some((attempt) => attempt.ended === job.ended))
    events.push({ at: job.ended, words: endWords(job) });
  return events
    .map((event, order) => ({ ...event, order }))
    .sort((one, other) => one.at - other.at || one.order - other.order);
}

function startedWords(attempt) {
  if (attempt.from_start) return "started again from the beginning";
  return Number.isFinite(attempt.resumed_from) ? `resumed from step ${amount(attempt.resumed_from)}` : "started";
}

/** What a live attempt was asked for, by whom or why. */
function askedWords(job) {
  const asked = isEnding(job) ? "The job was asked to end." : "The job was asked to save and pause.";
  return [asked, ...sentencesOf(job.reason, (role) => role === "cause")].join(" ");
}

/** The end of a job outside of an attempt. The reason of a cancellation names the user who cancelled it. */
function endWords(job) {
  const why = sentencesOf(job.reason);
  return (
    job.state === "cancelled" && why.length ? why : [`The job ${ENDS[job.state] ?? clean(job.state)}.`, ...why]
  ).join(" ");
}

/** The list of events. */
export function drawEvents(job, now) {
  return h(
    "ol",
    { class: "st-events", "data-testid": "events" },
    eventsOf(job).map(({ at, words }, place) =>
      h("li", { key: place, "data-testid": "event-row" }, when(at, now, "at"), h("span", { key: "words" }, words)),
    ),
  );
}
