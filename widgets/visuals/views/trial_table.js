/** The trials of a sweep as a table: sorted by its heads, filtered by state and text, the first of them shown. */

import { markBeyond } from "../base/beyond.js";
import { h } from "../base/dom.js";
import { button, colourOf, emptyState, sortMark, stateMark, stateWord } from "../base/glyphs.js";
import { countedAs, parameterWords, TRIAL_STATES } from "../base/sweep_words.js";
import { endOfLog, own, parameterNames, sortedRows } from "../base/trials.js";
import { amount, clean, cleanLines, count } from "../base/words.js";
import { sparkline } from "../charts/sparkline.js";

const FIRST_TRIALS = 50;
const MORE_TRIALS = 200;
const MOST_PARAMETERS = 12;
const MOST_COMPARED = 20;
const DASH = "–";
/** The columns of a population, by fields of the rows. */
const LINEAGE = [
  { name: "generation", column: "generation", field: "generation", number: true },
  { name: "member", column: "member", field: "member", number: true },
  { name: "copy of member", column: "copied_from", field: "copied_from", number: true },
];

/** The initial view of the table: by number, unfiltered; `open` are the numbers of trials whose errors are unfolded. */
export const TABLE_BEGIN = { column: "trial", down: false, state: "", text: "", shown: FIRST_TRIALS, open: [] };

/**
 * The filters and the table, as descriptions.
 * @param data `rows`: all, `matching`: those that match the filter; `metric`, `goal`, `best`: number of the best one;
 *   `colour`; `pageOf` returns the address of a job's own page by its id, or null; `target`; `compareOf` returns the
 *   address of the comparison of jobs by their ids, left out if there is none; `logOf` returns the end of a job's log by
 *   its id, as `text` and `reading`, left out if it cannot be read
 * @param view as `TABLE_BEGIN`
 * @param choose `choose(changes)` of the view
 */
export function trialTable(data, view, choose) {
  const { rows, matching } = data;
  const parameters = parameterNames(rows);
  const columns = columnsOf(parameters.slice(0, MOST_PARAMETERS), data);
  const sorted = sortedRows(matching, view.column, view.down);
  const left = sorted.length - view.shown;
  return h(
    "section",
    { key: "trials", class: "st-trials", "aria-label": "Trials" },
    drawTrialFilters(rows, matching, view, choose),
    sorted.length > 0 && drawTrials(sorted.slice(0, view.shown), columns, data, view, choose),
    !sorted.length &&
      emptyState(
        "No trial matches.",
        "Try other words, or ",
        button("trials-all", "show all", () => choose({ state: "", text: "" })),
      ),
    parameters.length > MOST_PARAMETERS &&
      h(
        "p",
        { key: "left", class: "st-muted st-trials-note" },
        `${count(parameters.length - MOST_PARAMETERS, "more parameter")} on the pages of the trials.`,
      ),
    drawComparing(sorted, data.compareOf),
    left > 0 &&
      button("trials-more", `Show more (${amount(left)} left)`, () => choose({ shown: view.shown + MORE_TRIALS })),
  );
}

/** The link to the comparison of the first started trials in the table. */
function drawComparing(sorted, compareOf) {
  const begun = sorted.filter(({ job }) => job).slice(0, MOST_COMPARED);
  if (!compareOf || begun.length < 2) return null;
  const words =
    sorted.length > begun.length
      ? `Compare the first ${begun.length} of these trials`
      : `Compare these ${begun.length} trials`;
  return h(
    "a",
    {
      key: "compare",
      class: "st-button",
      href: compareOf(begun.map(({ job }) => job)),
      "data-testid": "trials-compare",
    },
    words,
  );
}

function columnsOf(parameters, { rows, metric, goal }) {
  return [
    { name: "trial", column: "trial", number: true },
    ...(rows.some(({ member }) => Number.isFinite(member)) ? LINEAGE : []),
    ...parameters.map((parameter) => ({
      name: clean(parameter) || "parameter",
      column: { parameter },
      parameter,
      number: rows.every(({ parameters: of }) => isNumber(own(of, parameter))),
    })),
    { name: clean(metric) || "value", column: "value", number: true, down: goal === "maximize" },
    ...(rows.some(({ curve }) => curve.length > 1) ? [{ name: "curve" }] : []),
    { name: "state", column: "state" },
    { name: "attempt", column: "attempt", number: true },
  ];
}

function drawTrialFilters(rows, matching, view, choose) {
  const found = Map.groupBy(rows, ({ state }) => countedAs(state));
  const states = TRIAL_STATES.filter((state) => found.has(state) || state === view.state);
  const words = (state) =>
    `${state === "queued" ? "To come" : stateWord(state)} (${amount(found.get(state)?.length ?? 0)})`;
  const change = (event) => choose({ state: event.target.value, shown: FIRST_TRIALS });
  const input = (event) => choose({ text: event.target.value, shown: FIRST_TRIALS });
  return h(
    "div",
    { key: "filters", class: "st-trials-filters" },
    h(
      "select",
      {
        key: "state",
        "aria-label": "Show trials in the state",
        "data-testid": "trials-state",
        value: view.state,
        on: { change },
      },
      h("option", { key: "all", value: "" }, `All (${amount(rows.length)})`),
      states.map((state) => h("option", { key: state, value: state }, words(state))),
    ),
    h("input", {
      key: "text",
      type: "search",
      placeholder: "Search, as lr=0.01",
      "aria-label": "Search the trials",
      "data-testid": "trials-search",
      value: view.text,
      on: { input },
    }),
    matching !== rows &&
      h(
        "span",
        { key: "found", class: "st-muted", role: "status", "data-testid": "trials-found" },
        count(matching.length, "trial"),
      ),
  );
}

/** A table in a frame that scrolls it, with a shade where columns are beyond its edge; `name` is its name aloud. */
export function tableFrame(name, props, table) {
  const frame = { key: "scroll", class: "st-trials-scroll", tabindex: 0, role: "region", "aria-label": name };
  return h("div", { key: "table", class: "st-trials-frame", ...props }, h("div", frame, table));
}

/** Marks the frames of tables in a card whose columns are beyond their edges. */
export function markFrames(element) {
  for (const frame of element.querySelectorAll(".st-trials-scroll")) markBeyond(frame);
}

function drawTrials(rows, columns, data, view, choose) {
  return tableFrame(
    "Table of trials",
    { style: colourOf(data.colour) },
    h(
      "table",
      { "data-testid": "trials" },
      h(
        "thead",
        { key: "head" },
        h(
          "tr",
          {},
          columns.map((column, place) => drawTrialHead(column, place, view, choose)),
        ),
      ),
      h(
        "tbody",
        { key: "body" },
        rows.map((row) => [
          drawTrial(row, columns, data, view, choose),
          view.open.includes(row.trial) && row.error && drawError(row, columns.length, data),
        ]),
      ),
    ),
  );
}

function drawTrialHead({ name, column, down = false, number }, place, view, choose) {
  const classes = number ? "st-number" : null;
  if (column === undefined) return h("th", { key: place, scope: "col", class: classes }, name);
  const chosen = isSame(column, view.column);
  const sorted = chosen ? (view.down ? "descending" : "ascending") : "none";
  const click = () => choose({ column, down: chosen ? !view.down : down });
  return h(
    "th",
    { key: place, scope: "col", class: classes, "aria-sort": sorted },
    button(`trials-sort-${name}`, [name, sortMark(sorted)], click, { class: "st-trials-sort", title: name }),
  );
}

/** Whether a value of a parameter is a number or missing. */
function isNumber(value) {
  return value === undefined || typeof value === "number";
}

function isSame(one, other) {
  return typeof one === "string" ? one === other : one.parameter === other.parameter;
}

function drawTrial(row, columns, data, view, choose) {
  const best = row.trial === data.best;
  return h(
    "tr",
    {
      key: row.trial,
      class: best ? "st-best-trial" : null,
      "data-testid": "trial-row",
      "data-trial": row.trial,
      "data-state": row.state,
    },
    columns.map((column, place) =>
      column.column === "state"
        ? h("td", { key: place }, stateMark(row), row.error && errorFold(row, view, choose))
        : drawTrialCell(row, column, place, best, data),
    ),
  );
}

/** The error of a trial on one line, as a button that unfolds it. */
function errorFold({ trial, error }, { open }, choose) {
  const isOpen = open.includes(trial);
  const fold = () => choose({ open: isOpen ? open.filter((other) => other !== trial) : [...open, trial] });
  const words = h("span", { key: "words", class: "st-trial-words" }, clean(error));
  const arrow = h("span", { key: "arrow", "aria-hidden": "true" }, isOpen ? "▾ " : "▸ ");
  return button("trial-error", [arrow, words], fold, {
    class: "st-muted st-trial-error",
    "aria-expanded": String(isOpen),
    title: clean(error),
  });
}

/** The whole error of a trial in a row of its own, with the end of its log: the lines of the code that led to it. */
function drawError({ trial, job, error }, columns, { logOf }) {
  const log = job && logOf?.(job);
  return h(
    "tr",
    { key: `error ${trial}`, class: "st-trial-unfolded", "data-testid": "trial-unfolded" },
    h(
      "td",
      { colspan: columns },
      h(
        "div",
        { key: "error", class: "st-trial-whole" },
        h("pre", { key: "words", class: "st-error", "data-testid": "trial-error-whole" }, clean(error)),
        log &&
          h(
            "pre",
            {
              key: "log",
              class: "st-log",
              tabindex: 0,
              "aria-label": `End of the log of trial ${trial}`,
              "data-testid": "trial-log",
            },
            log.reading ? clean(log.reading) : endOfLog(cleanLines(log.text)),
          ),
      ),
    ),
  );
}

function drawTrialCell(row, { name, parameter, field, number }, place, best, data) {
  const props = { key: place, class: number ? "st-number" : null };
  if (parameter !== undefined) {
    const value = own(row.parameters, parameter);
    return h(
      "td",
      { ...props, title: value === undefined ? null : clean(value) },
      value === undefined ? DASH : parameterWords(value),
    );
  }
  if (place === 0) return h("th", { ...props, scope: "row" }, drawTrialNumber(row, data));
  if (field !== undefined) return h("td", props, row[field] ?? DASH);
  if (name === "curve") return h("td", props, sparkline(row.curve, clean(data.metric) || "value"));
  if (name === "attempt") return h("td", props, row.attempt || DASH);
  return h(
    "td",
    props,
    Number.isFinite(row.value) ? amount(row.value) : DASH,
    best && h("span", { key: "best", class: "st-best-mark" }, "best"),
  );
}

function drawTrialNumber({ trial, job }, { pageOf, target }) {
  const href = job && pageOf ? pageOf(job) : null;
  return href
    ? h("a", { href, target, "aria-label": `Trial ${trial}`, "data-testid": "trial-link" }, trial)
    : h("span", { key: "number", title: job }, trial);
}
