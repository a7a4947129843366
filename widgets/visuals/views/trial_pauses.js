/** The pauses of a sweep's trials: how often and why they were paused, for how long, and the work that was lost. */

import { h } from "../base/dom.js";
import { gpuTime } from "../base/job_words.js";
import { pausesOf } from "../base/trials.js";
import { clean, count, duration } from "../base/words.js";

const MOST_REASONS = 4;

/** The pauses of the trials in `rows` until `now`, as a description; null if there were none. */
export function trialPauses(rows, now) {
  const { trials, times, seconds, lost, why } = pausesOf(rows, now);
  if (!times) return null;
  const shown = why.slice(0, MOST_REASONS);
  const others = why.slice(MOST_REASONS).reduce((sum, [, number]) => sum + number, 0);
  const saved = lost < 1 ? "All work had been saved." : `Not saved before: ${gpuTime(lost)}.`;
  return h(
    "div",
    { key: "pauses", class: "st-trial-pauses", "data-testid": "trial-pauses" },
    h(
      "p",
      { key: "sum", class: "st-standing-note" },
      `${count(times, "pause")} of ${count(trials, "trial")}, ${duration(seconds)} in all. ${saved}`,
    ),
    h(
      "ul",
      { key: "why", class: "st-muted" },
      shown.map(([words, number]) => h("li", { key: words }, `${count(number, "time")}: ${clean(words)}`)),
      others > 0 && h("li", { key: "others" }, `${count(others, "time")} for other reasons.`),
    ),
  );
}
