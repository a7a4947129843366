/** The run that a fork continues, in tables and legends. */

import { h } from "../base/dom.js";
import { amount, clean } from "../base/words.js";

/** ` at step 40`; empty if the step of the checkpoint is not known. */
function stepOf({ step }) {
  return Number.isFinite(step) ? ` at step ${amount(step)}` : "";
}

/** The job and the step of the checkpoint that a fork began with, with a link to the job; null for other jobs. */
export function drawParent({ rerun }, href) {
  if (!rerun?.fork) return null;
  const name = clean(rerun.name) || rerun.job;
  const parent = rerun.deleted ? name : h("a", { href: href(rerun.job), "data-testid": "forked-from" }, name);
  return h("span", { key: "fork" }, parent, stepOf(rerun.fork));
}

/** `fork of “train” at step 40`; null for a job that is none. `nameOf` returns the name of a job where it is shown, or null. */
export function forkWords({ rerun }, nameOf) {
  if (!rerun?.fork) return null;
  return `fork of “${nameOf(rerun.job) ?? (clean(rerun.name) || rerun.job)}”${stepOf(rerun.fork)}`;
}
