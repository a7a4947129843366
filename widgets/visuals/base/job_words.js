/** The state of a job, in sentences. */

import { h, textOf } from "./dom.js";
import { isFinal, timeOf, when } from "./glyphs.js";
import {
  ago,
  amount,
  clean,
  clock,
  count,
  duration,
  exact,
  LONGEST_HEADLINE,
  roughly,
  shortened,
  size,
} from "./words.js";

const SOON_S = 10;
const FAST_S = 5;
const SLOW_S = 30;
const MINUTES_S = 60;
const LATE_S = 60;
const PRIORITIES = { train: 50, high: 75, critical: 100 };
const RESERVED = new Set(["awaits-pause", "limit-held", "next"]);
const HAPPENED = new Set(["cause", "detail"]);
const LONGEST_NAME = 24;

/** The reason in the present state of a job, in full. */
const REASONS = { queued: inFull, starting: inFull, running, pausing: inFull, paused };
/** The times that belong to it. */
const TIMES = { queued: [startWords], running: [sinceWords, leftWords], pausing: [graceLeft], paused: [startWords] };
/** The sentences about a job that has ended. */
const ENDS = { succeeded, failed, cancelled };

/**
 * The last whole number of `seconds` of the clock. Words count by it, so that all places which show a job say one time,
 * whenever an event had each of them drawn.
 */
function steady(now, seconds = FAST_S) {
  return now - (now % seconds);
}

/** A reason whose times count on: what happens `in 21 s` by a reason made 15 s ago happens `in 6 s`. */
export function reasonAt(reason, now) {
  const { seconds, until } = reason?.params ?? {};
  if (!Number.isFinite(seconds) || !Number.isFinite(until)) return reason;
  const [then, rest] = [seconds, Math.min(seconds, until - steady(now))].map(
    (left) => `in ${roughly(Math.max(1, left))}`,
  );
  const counted = (text) => (text ?? "").replaceAll(then, rest);
  const sentences = reason.sentences.map((each) => ({ ...each, text: counted(each.text) }));
  const [text, headline, brief] = [reason.text, reason.headline, reason.brief].map(counted);
  return { ...reason, text, headline, brief, sentences };
}

function counting(job, now) {
  return { ...job, reason: reasonAt(job.reason, now) };
}

/** The headline of a job: its reason and its times in one line, in fewer words if they are many; or how it ended. */
export function jobHeadline(shown, shownAt) {
  const now = steady(shownAt);
  const job = counting(shown, now);
  if (ENDS[job.state]) return spaced(ENDS[job.state](job, now));
  const whole = oneLine(job) || inFull(job).join(" ");
  const brief = clean(job.reason?.brief) || whole;
  const [times, fewer] = [false, true].map((few) => timesOf(job, now, few));
  const lines = [
    [whole, ...times],
    [whole, ...fewer],
    [brief, ...times],
    [brief, ...fewer],
  ].map(spaced);
  return lines.find((line) => textOf(line).length <= LONGEST_HEADLINE) ?? lines.at(-1);
}

/** The part of a card that unfolds under the headline: the reason in full, or nothing if the headline has it. */
export function drawWhy(shown, shownAt) {
  const now = steady(shownAt);
  const job = counting(shown, now);
  const words = spaced([...(REASONS[job.state]?.(job, now) ?? []), unknownStart(job)]);
  if (!oneLine(job) || words.join("") === oneLine(job)) return null;
  return h(
    "details",
    { key: "why", class: "st-why", "data-testid": "job-why" },
    h("summary", { key: "summary" }, "Whole reason"),
    h("p", { key: "sentences", class: "st-sentences", "data-testid": "job-reason" }, words),
  );
}

/** The reason in one line; outputs that an earlier version saved in a notebook have none. */
function oneLine(job) {
  return clean(job.reason?.headline);
}

/** The times of a job; if `few`, in the fewest words. */
function timesOf(job, now, few) {
  return (TIMES[job.state] ?? []).map((words) => words(job, now, few));
}

function spaced(sentences) {
  return sentences.filter(Boolean).flatMap((words, place) => (place ? [" ", words] : [words]));
}

/** How long the words about a job stay true while nothing happens, in seconds; null for good, if it has ended. */
export function wordsLast(job, now) {
  if (!job.state || isFinal(job.state)) return null;
  const inMinutes = job.state === "running" && now - (job.attempts.at(-1)?.started ?? now) > MINUTES_S;
  return inMinutes && (timeLeft(job, now) ?? Infinity) > MINUTES_S ? SLOW_S : FAST_S;
}

/** The same of several jobs. */
export function allWordsLast(jobs, now) {
  const lasts = jobs.map((job) => wordsLast(job, now)).filter((seconds) => seconds !== null);
  return lasts.length > 0 ? Math.min(...lasts) : null;
}

/** Whether a job waits for GPUs, so that it has an expected start. */
export function waits(job) {
  return (job.state === "queued" || job.state === "paused") && !job.held_by_user && !job.hold;
}

/** Whether GPUs are reserved for a waiting job, which puts it before the queue. */
export function isReserved({ reason }) {
  return RESERVED.has(reason?.params?.waits ?? reason?.code);
}

/** `step 41 of 60`, or nothing if the job reported none. */
export function stepWords(progress) {
  if (!Number.isFinite(progress.step)) return "";
  return Number.isFinite(progress.of)
    ? `step ${amount(progress.step)} of ${amount(progress.of)}`
    : `step ${amount(progress.step)}`;
}

/** The options of a job. Outputs that an earlier version saved in a notebook have them among the job's own fields. */
export function optionsOf(job) {
  return job.options ?? job;
}

/** The request of a job: `4 GPUs`; of a sweep `4 GPUs for each of its trials`. */
export function askWords(job) {
  return `${requestWords(job)}${job.trials && optionsOf(job).gpus ? " for each of its trials" : ""}`;
}

/** The request of a job, or of each trial of a sweep: `4 GPUs`, `2 workers with 4 GPUs each`, `no GPU`. */
export function requestWords(job) {
  const { gpus, workers, min_workers: fewest } = optionsOf(job);
  if (!gpus) return "no GPU";
  if (workers === 1) return count(gpus, "GPU");
  const least = fewest < workers ? ` (at least ${fewest})` : "";
  return `${count(workers, "worker")}${least} with ${count(gpus, "GPU")} each`;
}

/** `train (50)`; a priority without a name is its number. `scheduler/model.py` has the names. */
export function priorityWords(priority) {
  const name = Object.keys(PRIORITIES).find((known) => PRIORITIES[known] === priority);
  return name ? `${name} (${priority})` : String(priority);
}

/** The remaining run time of a job, in seconds, by the estimate that forecasts use; null if unknown. */
export function timeLeft(job, now) {
  const left = (job.progress.ends ?? 0) - now;
  return job.state === "running" && left > 0 ? left : null;
}

function inFull(job) {
  return sentencesOf(job.reason);
}

function running(job, now) {
  return [...inFull(job), checkpointWords(job, now)];
}

/**
 * Since when a job runs: `Started 3 min ago.`, `Resumed 3 min ago, after a pause of 58 s.`; without a checkpoint
 * `Started again from the beginning 3 min ago, after a pause of 58 s.`
 */
function sinceWords(job, now, few) {
  const attempt = job.attempts.at(-1);
  if (!attempt?.started) return null;
  const before = job.attempts.at(-2);
  const pause = before?.state === "paused" && before.ended ? attempt.started - before.ended : 0;
  const after = pause >= 1 ? `, after a pause of ${duration(pause)}` : "";
  const again = job.from_start ? "Started again from the beginning" : "Resumed";
  const verb = job.attempt > 1 ? again : "Started";
  const title = few && after ? `${verb}${after}.` : null;
  return h("span", { key: "since", title }, `${verb} `, when(attempt.started, now), few ? "." : `${after}.`);
}

function leftWords(job, now) {
  const left = timeLeft(job, steady(now, wordsLast(job, now)));
  if (left === null) return null;
  return job.progress.limited ? `Ends in ${roughly(left)}, at its time limit.` : `About ${roughly(left)} to go.`;
}

/** The rest of the grace period of a pausing or ending job. */
function graceLeft({ attempts, grace, shown }, now) {
  const left = Math.min(grace, (attempts.at(-1)?.asked ?? -Infinity) + grace - now);
  return shown !== "ending" && left > 0 ? `At most ${roughly(left)} left.` : null;
}

function paused(job, now) {
  const last = job.attempts.at(-1);
  const since = last?.ended && h("span", { key: "since" }, "Paused ", when(last.ended, now), ".");
  const saved = Number.isFinite(job.saved_step)
    ? `Saved at step ${amount(job.saved_step)}.`
    : checkpointWords(job, now);
  const happened = sentencesOf(job.reason, (role) => HAPPENED.has(role));
  const follows = sentencesOf(job.reason, (role) => !HAPPENED.has(role));
  return [since, ...happened, saved, ...follows];
}

function succeeded(job, now) {
  return [ended("Finished ", job, now), job.trials?.failed ? oneLine(job) : null, heldWords(job)];
}

function failed(job, now) {
  const code = job.exit_code && !errorWords(job) ? ` with exit code ${job.exit_code}` : "";
  return [ended("Failed ", job, now, code), heldWords(job)];
}

/** The error of a failed job; empty if it is only an exit code, which the sentences have. */
export function errorWords({ error, reason }) {
  const isBare = reason?.params?.code !== undefined && !reason.params.detail;
  return isBare ? "" : clean(error);
}

function cancelled(job, now) {
  const by = shortened(clean(job.reason?.params?.by), LONGEST_NAME);
  return [ended(by ? `Cancelled by “${by}” ` : "Cancelled ", job, now), heldWords(job)];
}

function ended(words, job, now, how = "") {
  return h("span", { key: "ended" }, words, job.ended ? timeOf(job.ended, now) : "", how, ".");
}

function heldWords(job) {
  if (!(job.gpu_seconds >= 1)) return null;
  const attempts = job.attempt > 1 ? ` in ${job.attempt} attempts` : "";
  return `Held ${gpuTime(job.gpu_seconds)}${attempts}.`;
}

/** GPU seconds in words: `12 min of GPU time`, `3.5 GPU hours`. */
export function gpuTime(seconds) {
  return seconds < 3600 ? `${duration(seconds)} of GPU time` : `${amount(Math.round(seconds / 360) / 10)} GPU hours`;
}

/** The sentences of a reason, optionally only those whose role is `wanted`. They are shown unchanged or not at all. */
export function sentencesOf(reason, wanted = () => true) {
  return (reason?.sentences ?? []).filter(({ role }) => wanted(role)).map(({ text }) => clean(text));
}

/**
 * The line between the logs of two attempts: `── attempt 2 of train-3, started again 14:02 on node-1 ──`. It does not say
 * that the program resumes, which only the program knows; `from the beginning` that the pool knew no checkpoint.
 * `attempt_mark` of `scheduler/client/log_text.py` is the same for terminals.
 */
export function attemptMark(job, number, now) {
  const head = `── attempt ${number} of ${clean(job?.name)}`;
  const attempt = job?.attempts.find((each) => each.number === number);
  if (!attempt?.started) return `${head} ──`;
  const nodes = [...new Set(attempt.gpus.map(({ node }) => clean(node)))];
  const where = nodes.length > 1 ? ` on ${nodes.length} nodes` : nodes.map((node) => ` on ${node}`).join("");
  const from = attempt.from_start ? " from the beginning" : "";
  const how = attempt.had_checkpoint ? "started again with a checkpoint" : `started again${from}`;
  return `${head}, ${how} ${clock(attempt.started, now)}${where} ──`;
}

/** The newest checkpoint among a job's files, null if none was recognised: `Newest checkpoint: last.ckpt (…).` */
export function checkpointWords({ checkpoint, saved }, now) {
  if (!checkpoint) return null;
  const { path, by, size: bytes, passed } = checkpoint;
  const begins = passed ? "Resumes from" : "Newest checkpoint:";
  return `${begins} ${clean(path)} (${clean(by)}, ${size(bytes)}, saved ${ago(saved, now)}).`;
}

/** The names of jobs that stand side by side: with their ids where names are equal. */
export function distinctNames(jobs) {
  const names = jobs.map(({ id, name }) => clean(name) || id);
  return names.map((name, place) =>
    names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} (${jobs[place].id})`,
  );
}

/** Why the start of a waiting job cannot be expected, or nothing. */
function unknownStart({ starts }) {
  return starts && !Number.isFinite(starts.likely) ? sentencesOf(starts.why).join(" ") : "";
}

/**
 * When a waiting job is expected to start: `Likely starts in about 12 min (between 5 and 40 min).`; if `few`,
 * `Likely starts in about 12 min.`
 */
export function startWords(job, shownAt, few = false) {
  const now = steady(shownAt);
  const { starts, attempt, trials, saved_step: saved } = job;
  if (!starts) return null;
  if (!Number.isFinite(starts.likely)) return few ? null : unknownStart(job);
  const again = job.from_start ? ["start", " again from the beginning"] : ["resume", ""];
  const [verb, anew] = attempt ? again : ["start", ""];
  const at = !few && attempt && Number.isFinite(saved) ? ` at step ${amount(saved)}` : "";
  const late = now - starts.likely;
  const who = trials && job.started ? "The next trial" : "";
  const expected =
    late > LATE_S
      ? `${who || "It"} was expected to ${verb}${anew} ${roughly(late)} ago.`
      : `${who ? `${who} likely` : "Likely"} ${verb}s${anew}${at} ${moment(job, now, few)}.`;
  const times = [
    ["earliest", starts.earliest],
    ["likely", starts.likely],
    ["latest", starts.latest],
  ];
  const exactly = times.filter(([, time]) => Number.isFinite(time)).map(([name, time]) => `${name} ${exact(time)}`);
  const title = [...exactly, ...sentencesOf(starts.why)].filter(Boolean).join("\n");
  return h("span", { key: "starts", "data-testid": "job-starts", title }, expected);
}

/** A reason that counts the seconds has the forecast do the same, so that both say one time. */
function moment({ reason, starts: { earliest, likely, latest } }, now, few) {
  const soon = likely - now < (Number.isFinite(reason?.params?.until) ? 1 : SOON_S);
  const words = soon ? "any moment" : `in about ${roughly(likely - now)}`;
  if (few) return words;
  const first = earliest - now;
  if (Number.isFinite(latest)) return words + range(first, latest - now);
  if (soon || !Number.isFinite(earliest)) return words;
  return `${words} (${first < SOON_S ? "now" : `in ${roughly(first)}`} at the earliest)`;
}

function range(first, last) {
  const [early, late] = [roughly(first), roughly(last)];
  if (last < SOON_S || early === late) return "";
  if (first < SOON_S) return ` (within ${late})`;
  const unit = (words) => words.slice(words.indexOf(" "));
  return ` (between ${unit(early) === unit(late) ? early.split(" ")[0] : early} and ${late})`;
}

/** How long a job is expected to run, by earlier ones. */
export function expectedWords({ usual_runtime: usual, attempts }, now) {
  const ran = attempts.reduce(
    (sum, { started, ended }) => sum + (Number.isFinite(started) ? (ended ?? now) - started : 0),
    0,
  );
  const others = "the most similar earlier jobs";
  return ran > usual
    ? `${duration(usual)}, from ${others}; this one has run longer`
    : `${duration(usual)}, from ${others}`;
}
