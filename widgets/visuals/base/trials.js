/** The trials of a sweep as the rows of a table: from answers and events, sorted, searched, and their parameters. */

import { countedAs, parameterWords, plainValue, TRIAL_STATES } from "./sweep_words.js";
import { clean, naturally } from "./words.js";

const MOST_CURVE_POINTS = 100;
const TRACEBACK = "Traceback (most recent call last)";
const TRACE_LINES = 40;
const PRUNED = { state: "pruned", shown: "pruned" };

/** The row of a trial from an event. `before`: its earlier row, if any; `metric`: of its sweep. */
export function rowOfTrial(job, before, metric) {
  const outcome = job.outcome ?? {};
  return {
    trial: job.trial,
    member: outcome.member ?? null,
    generation: outcome.generation ?? null,
    parent: outcome.parent ?? null,
    copied_from: outcome.copied_from ?? null,
    job: job.id,
    ...(outcome.pruned && job.state === "succeeded" ? PRUNED : { state: job.state, shown: job.shown }),
    parameters: outcome.parameters ?? before?.parameters ?? null,
    value: outcome.value ?? finite(job.progress.values[metric]),
    values: job.progress.values,
    step: job.progress.step,
    of: job.progress.of,
    curve: outcome.curve ?? [],
    attempt: job.attempt,
    started: job.started,
    ended: job.ended,
    gpu_seconds: job.gpu_seconds,
    borrowed: job.held.filter((gpu) => gpu.borrowed).length,
    pauses: outcome.pauses ?? null,
    error: job.error,
  };
}

/** The row of a running trial after a report. */
export function reportedRow(row, { step, of, values }, metric) {
  const value = values?.[metric];
  const reported = { ...row, step, of, values: { ...row.values, ...values } };
  if (value === undefined) return reported;
  if (!Number.isFinite(value)) return { ...reported, value: null };
  const last = row.curve.at(-1)?.[0] ?? -Infinity;
  const curve =
    Number.isFinite(step) && step > last && row.curve.length < MOST_CURVE_POINTS
      ? [...row.curve, [step, value]]
      : row.curve;
  return { ...reported, value, curve };
}

/** The trials of a population that a trial continues, from its first generation on, and the trial itself. */
export function ancestorsOf(rows, trial) {
  const known = new Map(rows.map((row) => [row.trial, row]));
  const line = [];
  for (let row = known.get(trial); row && line.length < rows.length; row = known.get(row.parent)) line.unshift(row);
  return line;
}

/** A value of a metric if it can be compared with others, else null. */
function finite(value) {
  return Number.isFinite(value) ? value : null;
}

/** Whether rows agree with the counts of their sweep. */
export function agreesWith(rows, counts) {
  if (rows.length !== counts.number) return false;
  const found = new Map();
  for (const { state } of rows) found.set(countedAs(state), (found.get(countedAs(state)) ?? 0) + 1);
  return TRIAL_STATES.every((state) => (found.get(state) ?? 0) === counts[state]);
}

/**
 * The pauses of all trials: how many `trials` of them had some, and of these together the number of `times`, the
 * `seconds` until `now`, the GPU time lost, and `why`: pairs of a reason and its number, the most frequent first.
 */
export function pausesOf(rows, now) {
  const sums = { trials: 0, times: 0, seconds: 0, lost: 0 };
  const reasons = new Map();
  for (const { pauses } of rows) {
    if (!pauses) continue;
    sums.trials += 1;
    sums.times += pauses.times;
    sums.seconds += pauses.seconds + (Number.isFinite(pauses.since) ? Math.max(0, now - pauses.since) : 0);
    sums.lost += pauses.lost_gpu_seconds;
    for (const [words, times] of Object.entries(pauses.why)) reasons.set(words, (reasons.get(words) ?? 0) + times);
  }
  return { ...sums, why: [...reasons].toSorted(([, one], [, other]) => other - one) };
}

/** The names of all parameters, in the order of their first appearance. */
export function parameterNames(rows) {
  const names = new Set();
  for (const { parameters } of rows) for (const name of Object.keys(parameters ?? {})) names.add(name);
  return [...names];
}

/** The value of a row in a column: a field's name, or `{ parameter }`. */
export function valueIn(row, column) {
  return typeof column === "string" ? row[column] : own(row.parameters, column.parameter);
}

/** The value of a parameter; undefined if missing. Names come from users, so `constructor` is a valid one. */
export function own(parameters, name) {
  return parameters && Object.hasOwn(parameters, name) ? plainValue(parameters[name]) : undefined;
}

/** Rows in the order of a column; those without a value come last in both directions. */
export function sortedRows(rows, column, down) {
  const sign = down ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [a, b] = [valueIn(one, column), valueIn(other, column)];
    const missing = Number(isMissing(a)) - Number(isMissing(b));
    return missing || (isMissing(a) ? 0 : sign * compared(a, b)) || one.trial - other.trial;
  });
}

/** Rows in a state (one of `TRIAL_STATES`; empty: all) whose number, parameters or error have all words of `text`. */
export function matchingRows(rows, state, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!state && !words.length) return rows;
  return rows.filter((row) => (!state || countedAs(row.state) === state) && (!words.length || contains(row, words)));
}

function contains({ trial, member, generation, parameters, error }, words) {
  const pairs = Object.entries(parameters ?? {}).map(([name, value]) => `${clean(name)}=${parameterWords(value)}`);
  if (Number.isFinite(member)) pairs.push(`member=${member}`, `generation=${generation}`);
  const text = `${trial} ${pairs.join(" ")} ${clean(error)}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** The last traceback of a log to its end, without one the last lines. */
export function endOfLog(text) {
  return text
    .slice(Math.max(0, text.lastIndexOf(TRACEBACK)))
    .trimEnd()
    .split("\n")
    .slice(-TRACE_LINES)
    .join("\n");
}

function isMissing(value) {
  return value === null || value === undefined || Number.isNaN(value);
}

function compared(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return naturally(one, other);
}
