/** The columns of the table of jobs: which there are, which are chosen, and the chooser. */

import { h } from "../base/dom.js";
import { button, when } from "../base/glyphs.js";
import { clamped } from "../base/tip.js";
import { amount, clean, lasted } from "../base/words.js";
import { argumentWords } from "./argument_list.js";
import { drawParent } from "./lineage.js";

const NONE = "–";
/** Most columns of arguments that are tried without a choice: each that does not fit costs a drawing. */
const AUTO_ARGUMENTS = 12;
const AUTO_METRICS = 2;
const MOST_NAMES = 200;
/**
 * Columns of every table that give way to arguments, metrics and lineage where the window is narrow, the last one first,
 * unless the jobs are of several people or projects.
 */
const YIELDING = ["user", "project"];

/** Columns beside those that are always there. Those with `has` show by themselves if it holds for one of the jobs. */
const MORE = [
  { name: "submitted", order: "newest", draw: ({ job, now }) => when(job.submitted, now) },
  { name: "started", order: "-started", draw: ({ job, now }) => (job.started ? when(job.started, now) : NONE) },
  {
    name: "duration",
    order: "-duration",
    about: "From the first start to the end, pauses included",
    draw: ({ job, now }) => (job.started ? lasted(job.started, job.ended, now) : NONE),
  },
  { name: "note", order: "note", draw: ({ job }) => drawNote(job) },
  {
    name: "preset",
    order: "preset",
    has: ({ options }) => options.preset,
    draw: ({ job }) => clean(job.options.preset) || NONE,
  },
  {
    name: "forked from",
    order: "forked_from",
    has: ({ rerun }) => rerun?.fork,
    draw: ({ job, href }) => drawParent(job, href) ?? NONE,
  },
  {
    name: "generation",
    order: "generation",
    has: ({ outcome, trials }) => trials?.population ?? Number.isFinite(outcome?.generation),
    draw: ({ job }) => generationWords(job),
  },
];

/** Of a population `3 of 10`; of one of its trials `3, member 5`, and whose copy that is. */
function generationWords({ outcome, trials }) {
  if (trials?.population) return `${trials.population.generation} of ${trials.population.generations}`;
  if (!Number.isFinite(outcome?.generation)) return NONE;
  const copy = Number.isFinite(outcome.copied_from) ? `, copy of member ${outcome.copied_from}` : "";
  return `${outcome.generation}, member ${outcome.member}${copy}`;
}

function drawNote({ note }) {
  return note ? clamped(clean(note), clean(note), { key: "note", class: "st-note" }) : NONE;
}

/** The names of the arguments, or of the metrics, of jobs; those that are written for most come first. */
function namesOf(jobs, kept) {
  const counts = new Map();
  for (const job of jobs) for (const name of kept(job)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one)).slice(0, MOST_NAMES);
}

const argumentsOf = (job) => Object.keys(job.arguments);
const metricsOf = (job) => Object.keys(job.progress.values);

function argumentColumn(name) {
  return {
    name: clean(name),
    key: `argument.${name}`,
    order: `argument.${name}`,
    draw: ({ job }) => (Object.hasOwn(job.arguments, name) ? argumentWords(job.arguments[name]) : NONE),
  };
}

function lastColumn(name) {
  const of = ({ values }) => (Object.hasOwn(values, name) ? values[name] : null);
  return { name: clean(name), key: `last.${name}`, order: `last.${name}`, draw: ({ job }) => amount(of(job.progress)) };
}

function bestColumn(name) {
  return {
    name: `best ${clean(name)}`,
    key: `best.${name}`,
    order: `best.${name}`,
    draw: ({ job }) => {
      const best = Object.hasOwn(job.progress.best, name) ? job.progress.best[name] : null;
      if (!best) return NONE;
      const title = Number.isFinite(best.step) ? `at step ${amount(best.step)}` : null;
      return h("span", { key: "best", title }, amount(best.value));
    },
  };
}

/** The chosen columns of a person: keys, or null while they follow the jobs. */
export class ChosenColumns {
  /** @param owner the person or the place whose choice is remembered */
  constructor(changed, owner) {
    this.changed = changed;
    this.name = `springtide-columns-${owner}`;
    this.keys = kept(this.name);
    this.most = Infinity;
    this.beside = [];
  }

  /** There may be room for more columns. */
  widened() {
    this.most = Infinity;
  }

  /** Without one of the jobs that were listed there may be room for the columns that were left out. */
  follow(jobs) {
    if (this.most === Infinity) return;
    const listed = new Set(jobs.map(({ id }) => id));
    if (this.beside.some((id) => !listed.has(id))) this.widened();
  }

  /** Leaves out one more column that was not chosen; returns whether there was one. */
  narrowed(jobs) {
    const shown = this.#keysOf(jobs);
    if (this.keys || !shown.length) return false;
    this.most = shown.length - 1;
    this.beside = jobs.map(({ id }) => id);
    return true;
  }

  #keysOf(jobs) {
    return this.keys ?? usual(jobs, this.most);
  }

  #choose(keys) {
    this.keys = keys;
    try {
      if (keys) window.localStorage.setItem(this.name, JSON.stringify(keys));
      else window.localStorage.removeItem(this.name);
    } catch {
      // a browser that keeps nothing: the choice holds for this page
    }
    this.changed();
  }

  /** The names of usual columns that give way to those of the jobs; none once columns were chosen. */
  leftOut(jobs) {
    const shown = this.#keysOf(jobs);
    return new Set(this.keys ? [] : YIELDING.filter((name) => !shown.includes(name)));
  }

  /** The columns to draw for jobs, beside those that are always there. */
  of(jobs) {
    const known = offered(jobs);
    const shown = this.#keysOf(jobs);
    return shown.map((key) => known.get(key) ?? columnOf(key)).filter(Boolean);
  }

  /** The chooser: every column that the listed jobs have. */
  draw(jobs) {
    const known = offered(jobs);
    const shown = this.#keysOf(jobs).filter((key) => !YIELDING.includes(key));
    for (const key of shown) if (!known.has(key)) known.set(key, columnOf(key));
    const set = (key, wanted) => this.#choose(wanted ? [...shown, key] : shown.filter((other) => other !== key));
    return h(
      "details",
      { key: "columns", class: "st-columns", "data-testid": "columns" },
      h("summary", { key: "summary", class: "st-button" }, "Columns"),
      h(
        "div",
        { key: "choices", class: "st-columns-choices", role: "group", "aria-label": "Columns" },
        GROUPS.map(([title, belongs]) => drawGroup(title, [...known.values()].filter(belongs), shown, set)),
        this.keys &&
          button("columns-usual", "Usual columns", () => this.#choose(null), {
            title: "Shows the arguments that differ and the main metrics, as many as fit",
          }),
      ),
    );
  }
}

const GROUPS = [
  ["Job", ({ key }) => !key],
  ["Arguments", ({ key }) => key?.startsWith("argument.")],
  ["Metrics", ({ key }) => key?.startsWith("last.") || key?.startsWith("best.")],
];

function drawGroup(title, columns, shown, set) {
  if (!columns.length) return null;
  return h(
    "fieldset",
    { key: title },
    h("legend", { key: "legend" }, title),
    columns.map((column) => {
      const key = keyOf(column);
      return h(
        "label",
        { key },
        h("input", {
          type: "checkbox",
          checked: shown.includes(key),
          "data-testid": `column-${key}`,
          on: { change: (event) => set(key, event.target.checked) },
        }),
        column.name,
      );
    }),
  );
}

/** The key of a column, by which it is chosen and kept. */
export function keyOf({ key, name }) {
  return key ?? name;
}

function kept(name) {
  try {
    const keys = JSON.parse(window.localStorage.getItem(name));
    return Array.isArray(keys) && keys.every((key) => typeof key === "string") ? keys.slice(0, MOST_NAMES) : null;
  } catch {
    return null;
  }
}

function offered(jobs) {
  const metrics = namesOf(jobs, metricsOf);
  const columns = [
    ...MORE,
    ...namesOf(jobs, argumentsOf).map(argumentColumn),
    ...metrics.flatMap((name) => [lastColumn(name), bestColumn(name)]),
  ];
  return new Map(columns.map((column) => [keyOf(column), column]));
}

function columnOf(key) {
  const makers = { "argument.": argumentColumn, "last.": lastColumn, "best.": bestColumn };
  const kind = Object.keys(makers).find((start) => key.startsWith(start));
  return kind ? makers[kind](key.slice(kind.length)) : MORE.find(({ name }) => name === key);
}

/** The names of the arguments that differ; those come first whose most common value the fewest jobs share. */
function differing(jobs) {
  const apart = namesOf(jobs, argumentsOf).map((name) => {
    const values = jobs.map((job) => JSON.stringify(job.arguments[name])).filter(Boolean);
    const shares = [...Map.groupBy(values, (value) => value).values()].map(({ length }) => length);
    return { name, others: values.length - Math.max(...shares) };
  });
  return apart
    .filter(({ others }) => others > 0)
    .sort((one, other) => other.others - one.others)
    .map(({ name }) => name);
}

/**
 * Without a choice: the arguments in which the jobs differ, the metrics that most of them have, lineage, and those that
 * may give way to them; at most `most`, the most significant ones.
 */
function usual(jobs, most) {
  const given = differing(jobs)
    .slice(0, AUTO_ARGUMENTS)
    .map((name) => `argument.${name}`);
  const metrics = namesOf(jobs, metricsOf)
    .slice(0, AUTO_METRICS)
    .map((name) => `last.${name}`);
  const spans = jobs.some(({ ended }) => ended) ? ["duration"] : [];
  const lineage = MORE.filter(({ has }) => has && jobs.some(has)).map(keyOf);
  const inTurn = [...given, ...metrics.slice(given.length)].flatMap((name, at) => [name, given[at] && metrics[at]]);
  const [argument, metric, ...others] = inTurn.filter(Boolean);
  const telling = YIELDING.filter((name) => new Set(jobs.map((job) => job[name])).size > 1);
  const first = [...new Set([...telling, argument, metric, ...lineage, ...others, ...YIELDING, ...spans])]
    .filter(Boolean)
    .slice(0, most);
  return [...YIELDING, ...spans, ...given, ...metrics, ...lineage].filter((key) => first.includes(key));
}
