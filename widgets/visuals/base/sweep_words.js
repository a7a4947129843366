/** The state of a sweep in words: its trials by state, the best one, and the parameters of a trial. */

import { amount, clean, shortened } from "./words.js";

const SHOWN_PARAMETERS = 6;
const LONGEST_VALUE = 60;

/** The states of trials in the order of display, under their names in the counts. */
export const TRIAL_STATES = ["succeeded", "pruned", "failed", "cancelled", "running", "paused", "queued"];

const ENDED_STATES = new Set(["succeeded", "pruned", "failed", "cancelled"]);
const GPU_STATES = new Set(["starting", "running", "pausing"]);

/** The field of a sweep's counts that includes trials in this state. */
export function countedAs(state) {
  if (GPU_STATES.has(state)) return "running";
  return ENDED_STATES.has(state) || state === "paused" ? state : "queued";
}

/** The number of ended trials of a sweep, in any final state. */
export function endedTrials(counts) {
  return counts.succeeded + counts.pruned + counts.failed + counts.cancelled;
}

/** The number of trials of a sweep that ran to their end, whatever it was: those that were not cancelled. */
export function finishedTrials(counts) {
  return endedTrials(counts) - counts.cancelled;
}

/** `12 of 60 trials`, `12 of 60 trials, 3 cancelled`. */
export function trialsWords(counts) {
  const trials = counts.number === 1 ? "trial" : "trials";
  return `${amount(finishedTrials(counts))} of ${amount(counts.number)} ${trials}${cancelledWords(counts)}`;
}

function failedWords({ failed }) {
  return failed ? `, ${amount(failed)} failed` : "";
}

function cancelledWords({ cancelled }) {
  return cancelled ? `, ${amount(cancelled)} cancelled` : "";
}

/** A population: `8 members`, `generation 2 of 10`, `10 steps each`; empty for any other sweep. */
export function populationWords({ population }) {
  if (!population) return [];
  const { members, generation, generations, every } = population;
  return [`${amount(members)} members`, `generation ${generation} of ${generations}`, `${amount(every)} steps each`];
}

/** A sweep in a list: `12/60 trials, 2 failed, 3 cancelled, best 0.031`. */
export function shortTrialsWords(counts) {
  const best = counts.best ? `, best ${amount(counts.best.value)}` : "";
  return `${amount(finishedTrials(counts))}/${amount(counts.number)} trials${failedWords(counts)}${cancelledWords(counts)}${best}`;
}

/** A parameter as a plain value: of one that JSON cannot express, such as a list, its text. */
export function plainValue(parameter) {
  return parameter !== null && typeof parameter === "object" ? parameter.value : parameter;
}

/** The value of a parameter: `0.01`, `adam`, `true`, `None`. */
export function parameterWords(parameter) {
  const value = plainValue(parameter);
  if (value === null || value === undefined) return "None";
  if (typeof value === "number") return amount(value);
  return shortened(clean(value), LONGEST_VALUE);
}

/** `lr=0.01, depth=3`: the first `most` parameters. Empty if none are known. */
export function parametersWords(parameters, most = SHOWN_PARAMETERS) {
  const all = Object.entries(parameters ?? {});
  const shown = all.slice(0, most).map(([name, value]) => `${clean(name)}=${parameterWords(value)}`);
  return [...shown, all.length > most && `${all.length - most} more`].filter(Boolean).join(", ");
}

/** `trial 17: lr=0.01, depth=3`. */
export function trialWords({ trial, parameters }) {
  const words = parametersWords(parameters);
  return words ? `trial ${trial}: ${words}` : `trial ${trial}`;
}

/** The GPUs that the trials of a sweep hold: `5 GPUs held, 2 of them borrowed`. */
export function sweepGpuWords({ gpus, borrowed }) {
  const held = `${amount(gpus)} ${gpus === 1 ? "GPU" : "GPUs"}`;
  if (!borrowed) return `${held} within quota`;
  return borrowed === gpus ? `${held}, borrowed` : `${borrowed} of ${held} borrowed`;
}
