/** How a job stands, in sentences. */

import { h } from "./dom.js";
import { when } from "./glyphs.js";
import { amount, clean, count, duration, exact, gpusHeld } from "./words.js";

const SOON_S = 10;

/** The sentences of a job's card, as descriptions: where it stands, and why. */
export function jobSentences(job, now) {
  const say = { queued, starting, running, pausing, paused, succeeded, failed, cancelled }[job.state];
  if (!say) return [];
  const sentences = say(job, now).filter(Boolean);
  return sentences.flatMap((words, place) => (place ? [" ", words] : [words]));
}

/** Whether a job waits for GPUs, so that it has an expected start. */
export function waits(job) {
  return (job.state === "queued" || job.state === "paused") && !job.held_by_user;
}

/** `step 41 of 60`, or nothing if the job reported none. */
export function stepWords(progress) {
  if (!Number.isFinite(progress.step)) return "";
  return Number.isFinite(progress.of) ? `step ${amount(progress.step)} of ${amount(progress.of)}` : `step ${amount(progress.step)}`;
}

/** What a job asks for: `4 GPUs`, `2 workers with 4 GPUs each`. */
export function askWords(job) {
  if (job.workers === 1) return count(job.gpus, "GPU");
  const least = job.min_workers < job.workers ? ` (at least ${job.min_workers})` : "";
  return `${count(job.workers, "worker")}${least} with ${count(job.gpus, "GPU")} each`;
}

/** How much longer the job will run if it goes on as it does, in seconds; null if that cannot be told. */
export function timeLeft(job, now) {
  const { step, of, at } = job.progress;
  const attempt = job.attempts.at(-1);
  const done = step - (attempt?.resumed_from ?? 0);
  if (job.state !== "running" || !attempt?.started || !(done > 0) || !(of > step) || !at) return null;
  const left = ((of - step) * (at - attempt.started)) / done - (now - at);
  return left > 0 ? left : null;
}

function queued(job, now) {
  if (job.held_by_user) return ["Held by its user; it starts when somebody resumes it."];
  return [...because(job.reason), ...inLine(job, now)];
}

function starting(job) {
  return [`Starting on ${heldWords(job)}.`];
}

function running(job, now) {
  const attempt = job.attempts.at(-1);
  const since = attempt?.started ? `Running for ${duration(now - attempt.started)} on ${heldWords(job)}.` : `Running on ${heldWords(job)}.`;
  const left = timeLeft(job, now);
  return [since, left !== null && `About ${duration(left)} to go.`];
}

function pausing(job) {
  const words = because(job.reason);
  return words.length ? words : ["Saving its work, then giving its GPUs back."];
}

function paused(job, now) {
  const last = job.attempts.at(-1);
  const why = job.held_by_user ? "" : (last?.ended_why?.text ?? "");
  const sentences = [];
  if (last?.ended) sentences.push(h("span", { key: "since" }, "Paused ", when(last.ended, now), why ? `: ${inside(asSentence(why))}` : "."));
  if (Number.isFinite(job.saved_step)) sentences.push(`Saved at step ${amount(job.saved_step)}.`);
  if (job.held_by_user) return [...sentences, "Held by its user; it goes on when somebody resumes it."];
  return [...sentences, ...because(without(job.reason, why)), ...inLine(job, now)];
}

function without(reason, said) {
  if (!said || !reason?.text.startsWith(said)) return reason;
  return { ...reason, text: reason.text.slice(said.length).replace(/^[\s.;,:]+/, "") };
}

function succeeded(job, now) {
  return [ended("Finished ", job, now), usage(job)];
}

function failed(job, now) {
  return [ended("Failed ", job, now, job.exit_code ? ` with exit code ${job.exit_code}` : ""), usage(job)];
}

function cancelled(job, now) {
  return [ended("Cancelled ", job, now), usage(job)];
}

function ended(words, job, now, how = "") {
  return h("span", { key: "ended" }, words, job.ended ? when(job.ended, now) : "", how, ".");
}

function usage(job) {
  if (!(job.gpu_seconds >= 1)) return null;
  const attempts = job.attempt > 1 ? ` in ${job.attempt} attempts` : "";
  return `Used ${gpuTime(job.gpu_seconds)}${attempts}.`;
}

function gpuTime(seconds) {
  return seconds < 3600 ? `${duration(seconds)} of GPU time` : `${amount(Math.round(seconds / 360) / 10)} GPU hours`;
}

function heldWords(job) {
  const borrowed = job.held.filter((gpu) => gpu.borrowed).length;
  return job.held.length ? gpusHeld(job.held.length, borrowed) : askWords(job);
}

function because(reason) {
  return reason?.text ? [asSentence(reason.text)] : [];
}

/** A sentence as it goes on after a colon. */
function inside(words) {
  return /^[A-Z][a-z]/.test(words) ? words.charAt(0).toLowerCase() + words.slice(1) : words;
}

function inLine(job, now) {
  const words = [];
  if (job.place) words.push(job.place === 1 ? "Next in line." : `Number ${job.place} in line.`);
  return [...words, startWords(job, now)];
}

/** When a waiting job is expected to start: `Likely starts in about 12 min (between 5 and 40 min).` */
function startWords({ starts, attempt }, now) {
  if (!starts) return null;
  if (!Number.isFinite(starts.likely)) return starts.why?.text ? asSentence(starts.why.text) : null;
  const words = `Likely ${attempt ? "resumes" : "starts"} ${moment(starts, now)}.`;
  const at = [["earliest", starts.earliest], ["likely", starts.likely], ["latest", starts.latest]];
  const exactly = at.filter(([, time]) => Number.isFinite(time)).map(([name, time]) => `${name} ${exact(time)}`);
  const title = [...exactly, starts.why?.text].filter(Boolean).join("\n");
  return h("span", { key: "starts", "data-testid": "job-starts", title }, words);
}

function moment({ earliest, likely, latest }, now) {
  const soon = likely - now < SOON_S;
  const words = soon ? "any moment" : `in about ${duration(likely - now)}`;
  const first = earliest - now;
  if (Number.isFinite(latest)) return words + range(first, latest - now);
  if (soon || !Number.isFinite(earliest)) return words;
  return `${words} (${first < SOON_S ? "now" : `in ${duration(first)}`} at the earliest)`;
}

function range(first, last) {
  const [early, late] = [duration(first), duration(last)];
  if (last < SOON_S || early === late) return "";
  if (first < SOON_S) return ` (within ${late})`;
  const unit = (words) => words.slice(words.indexOf(" "));
  return ` (between ${unit(early) === unit(late) ? early.split(" ")[0] : early} and ${late})`;
}

/** Somebody's words, ending as a sentence does. */
export function asSentence(text) {
  const words = clean(text);
  return /[.!?]$/.test(words) ? words : `${words}.`;
}
