/** The card of a job, whatever it is: a sweep has trials, any other job attempts. */

import { renderJobCard } from "./job_card.js";
import { renderSweepCard } from "./sweep_card.js";

/** Draws the card of a job or of a sweep; what `data` and `actions` have for the other one is left out. */
export function renderWorkCard(element, data, actions = {}) {
  (data.job.trials ? renderSweepCard : renderJobCard)(element, data, actions);
}
