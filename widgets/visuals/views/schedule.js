/** The schedule of a population's best trial: with which parameters it was trained, generation by generation. */

import { h } from "../base/dom.js";
import { parameterWords } from "../base/sweep_words.js";
import { ancestorsOf, own, parameterNames } from "../base/trials.js";
import { amount, clean } from "../base/words.js";
import { tableFrame } from "./trial_table.js";

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
  const columns = scheduleColumns(line, population.every, clean(trials.metric));
  return h(
    "section",
    {
      key: "schedule",
      class: "st-trials st-schedule",
      "aria-label": "Schedule of the best trial",
      "data-testid": "schedule",
    },
    h("p", { key: "head", class: "st-muted st-trials-note" }, `How trial ${best.trial} was trained:`),
    tableFrame(
      "Table of the schedule",
      {},
      h(
        "table",
        {},
        h(
          "thead",
          { key: "head" },
          h(
            "tr",
            {},
            columns.map(({ head, classes }, place) => h("th", { key: place, scope: "col", class: classes }, head)),
          ),
        ),
        h(
          "tbody",
          { key: "body" },
          line.map((row) => drawGeneration(row, columns)),
        ),
      ),
    ),
  );
}

/** The columns: numbers are aligned at their ends, other parameters at their beginnings. */
function scheduleColumns(line, every, metric) {
  const number = (head, words) => ({ head, words, classes: "st-number" });
  const parameter = (name) => ({
    head: clean(name),
    words: ({ parameters }) => parameterWords(own(parameters, name)),
    classes: line.every(({ parameters }) => typeof own(parameters, name) === "number") ? "st-number" : null,
  });
  return [
    number("generation", ({ generation }) => generation),
    number("steps", ({ generation }) => `${amount(every * (generation - 1))} to ${amount(every * generation)}`),
    number("member", ({ member }) => member),
    ...parameterNames(line).map(parameter),
    number(metric, ({ value }) => (Number.isFinite(value) ? amount(value) : NO_VALUE)),
  ];
}

function drawGeneration(row, columns) {
  return h(
    "tr",
    { key: row.generation, "data-testid": "schedule-row" },
    columns.map(({ words, classes }, place) =>
      h(place ? "td" : "th", { key: place, scope: place ? null : "row", class: classes }, words(row)),
    ),
  );
}
