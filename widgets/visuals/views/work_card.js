/** The card of a job of any kind: a sweep has trials, any other job attempts. */

import { renderJobCard } from "./job_card.js";
import { renderSweepCard } from "./sweep_card.js";

/** Draws the card of a job or of a sweep; ignores the parts of `data` and `actions` for the other one. */
export function renderWorkCard(element, data, actions = {}) {
  (data.job.trials ? renderSweepCard : renderJobCard)(element, data, actions);
}
