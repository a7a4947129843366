/** The job's life: one bar from submission to end, attempts as segments, waits and pauses as gaps. */

import { borrowedParts, borrowedWords } from "../base/borrowing.js";
import { h, patch } from "../base/dom.js";
import { colourOf, isFinal, shownState, stage, stateWord } from "../base/glyphs.js";
import { sentencesOf } from "../base/job_words.js";
import { tips } from "../base/tip.js";
import { aloud, clock, count, duration, exact, lasted } from "../base/words.js";

/** Minimum length of the bar, in seconds, which avoids a division by zero. */
const SHORTEST_S = 0.001;

/**
 * Draws a job's life.
 * @param data `job`: Job with its attempts; `now`; `colour`: of its project
 */
export function renderJobLife(element, data) {
  const { job, now } = data;
  const start = job.submitted;
  const end = job.ended ? Math.max(job.ended, start + SHORTEST_S) : Math.max(now, start + 1);
  const place = (at) => Math.round((1000 * (Math.min(Math.max(at, start), end) - start)) / (end - start));
  const span = (from, to) => ({ left: `${place(from) / 10}%`, width: `${Math.max(0, place(to) - place(from)) / 10}%` });
  tips(stage(element, "st-life"));
  patch(
    element,
    h(
      "div",
      {
        key: "bar",
        class: "st-life-bar",
        style: colourOf(data.colour),
        role: "list",
        "data-walk": "",
        "aria-label": "The job's life",
      },
      gapsOf(job, end).map((gap) => drawGap(gap, span)),
      job.attempts.map((attempt) => drawAttempt(withHeld(attempt, job), end, span, now)),
    ),
    h(
      "div",
      { key: "axis", class: "st-life-axis st-muted" },
      h("time", { key: "start", title: exact(start) }, `submitted ${clock(start, now)}`),
      h("span", { key: "span" }, lasted(start, isFinal(job.state) ? end : null, end)),
      h(
        "time",
        { key: "end", title: isFinal(job.state) ? exact(end) : null },
        isFinal(job.state) ? `${job.state} ${clock(end, now)}` : "now",
      ),
    ),
  );
}

function withHeld(attempt, job) {
  return attempt.number === job.attempt && job.held.length ? { ...attempt, gpus: job.held } : attempt;
}

function gapsOf(job, end) {
  const gaps = [];
  let from = job.submitted;
  const earlier = (job.attempts[0]?.number ?? 1) - 1;
  let why = earlier > 0 ? [`${count(earlier, "earlier attempt")} not shown here.`] : ["Waiting for its first start."];
  let paused = false;
  for (const attempt of job.attempts) {
    gaps.push({ from, to: attempt.started ?? attempt.created, why, paused });
    from = attempt.ended ?? end;
    why = attempt.ended_why ? sentencesOf(attempt.ended_why) : [stateWord(attempt.state)];
    paused = !["failed", "lost", "blocked"].includes(attempt.state);
  }
  if (!isFinal(job.state))
    gaps.push({ from, to: end, why: !job.attempts.length && job.reason ? sentencesOf(job.reason) : why, paused });
  return gaps.filter((gap) => gap.to > gap.from);
}

function drawGap(gap, span) {
  const long = gap.to - gap.from;
  const lines = [`${gap.paused ? "Paused" : "Waited"} ${long < 1 ? "less than a second" : duration(long)}`, ...gap.why];
  return h("div", {
    key: `gap ${gap.from}`,
    class: "st-life-gap",
    style: span(gap.from, gap.to),
    role: "listitem",
    tabindex: 0,
    "aria-label": aloud(lines),
    "data-tip": lines.join("\n"),
    "data-testid": "life-gap",
  });
}

function drawAttempt(attempt, end, span, now) {
  const from = attempt.started ?? attempt.created;
  const to = attempt.ended ?? end;
  const lines = attemptLines(attempt, from, to, now);
  const whole = Math.max(to - from, SHORTEST_S);
  const parts = borrowedParts(attempt, from, from + whole);
  return h(
    "div",
    {
      key: `attempt ${attempt.number}`,
      class: `st-life-attempt st-life-${attempt.state === "failed" || attempt.state === "lost" ? "failed" : "went"}`,
      style: span(from, to),
      role: "listitem",
      tabindex: 0,
      "aria-label": aloud(lines),
      "data-tip": lines.join("\n"),
      "data-testid": "life-attempt",
    },
    parts.map((part) => drawPart(attempt, part, whole)),
    h("span", { key: "number", class: "st-life-number" }, attempt.number),
  );
}

function drawPart(attempt, { from, to, borrowed }, whole) {
  const share = attempt.gpus.length ? (100 * borrowed) / attempt.gpus.length : 0;
  return h(
    "div",
    {
      key: `part ${from}`,
      class: "st-life-part",
      style: { width: `${(100 * (to - from)) / whole}%` },
      "data-testid": "life-part",
      "data-borrowed": borrowed,
    },
    h("div", { key: "borrowed", class: "st-hatched", style: { height: `${share}%` } }),
    h("div", {
      key: "own",
      class: `st-solid${attempt.ended ? "" : ` st-${attempt.state}`}`,
      style: { height: `${100 - share}%` },
    }),
  );
}

function attemptLines(attempt, from, to, now) {
  const lines = [`Attempt ${attempt.number}: ${shownState(attempt)}`];
  lines.push(
    `${clock(from, now)} to ${attempt.ended ? clock(to, now) : "now"}, ${lasted(from, attempt.ended ? to : null, to)}`,
  );
  if (attempt.gpus.length)
    lines.push([count(attempt.gpus.length, "GPU"), borrowedWords(attempt, now)].filter(Boolean).join(", "));
  return [...lines, ...sentencesOf(attempt.why), ...sentencesOf(attempt.ended_why)];
}
