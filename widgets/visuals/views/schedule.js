/** The schedule of a population's best trial: with which parameters it was trained, generation by generation. */

import { h } from "../base/dom.js";
import { parameterWords } from "../base/sweep_words.js";
import { ancestorsOf, own, parameterNames } from "../base/trials.js";
import { amount, clean } from "../base/words.js";

const NO_VALUE = "–";

/**
 * The table of the schedule, as a description; null for a sweep without a population or a best trial.
 * @param trials the counts of the sweep
 * @param rows its trials
 */
export function bestSchedule(trials, rows) {
  const { best, population } = trials;
  if (!population || !best) return null;
  const line = ancestorsOf(rows, best.trial);
  if (!line.length) return null;
  const names = parameterNames(line);
  const heads = ["generation", "steps", "member", ...names.map((name) => clean(name)), clean(trials.metric)];
  return h(
    "section",
    { key: "schedule", class: "st-trials", "aria-label": "Schedule of the best trial", "data-testid": "schedule" },
    h("p", { key: "head", class: "st-muted st-trials-note" }, `How trial ${best.trial} was trained:`),
    h(
      "div",
      { key: "table", class: "st-trials-scroll", tabindex: 0, role: "region", "aria-label": "Table of the schedule" },
      h(
        "table",
        {},
        h(
          "thead",
          { key: "head" },
          h(
            "tr",
            {},
            heads.map((head, place) => h("th", { key: place, scope: "col", class: "st-number" }, head)),
          ),
        ),
        h(
          "tbody",
          { key: "body" },
          line.map((row) => drawGeneration(row, names, population.every)),
        ),
      ),
    ),
  );
}

function drawGeneration(row, names, every) {
  const { generation, member, parameters, value } = row;
  const cells = [
    `${amount(every * (generation - 1))} to ${amount(every * generation)}`,
    member,
    ...names.map((name) => parameterWords(own(parameters, name))),
    Number.isFinite(value) ? amount(value) : NO_VALUE,
  ];
  return h(
    "tr",
    { key: generation, "data-testid": "schedule-row" },
    h("th", { key: "generation", scope: "row", class: "st-number" }, generation),
    cells.map((cell, place) => h("td", { key: place, class: "st-number" }, cell)),
  );
}
