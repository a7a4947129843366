/** The table of jobs: one row each, sorted by its heads, with the job's card below the row when it is opened. */

import { h } from "../base/dom.js";
import {
  briefState,
  button,
  isFinal,
  jobName,
  projectMark,
  shownState,
  sortMark,
  stateMark,
  stateWord,
  tagWord,
} from "../base/glyphs.js";
import { reasonAt, sentencesOf, stepWords, waits } from "../base/job_words.js";
import { shortTrialsWords } from "../base/sweep_words.js";
import { clamped } from "../base/tip.js";
import { ago, amount, clean, count, exact, naturally, roughly } from "../base/words.js";
import { keyOf } from "./run_columns.js";

const NONE = "–";
/** The replacement of numbers where names are compared. */
const NUMBER = "#";
const TAGS_SHOWN = 3;
const PINNED = "Pinned";
const OTHERS = "Others";
const LATEST = "latest";
/** Orders by a time that begin with the latest one, without a sign. */
const LATEST_FIRST = new Set([LATEST, "newest"]);
const FIRST = [
  { name: "state", order: "state", draw: ({ job }) => stateMark(job, "row-state", true) },
  { name: "name", order: "name", draw: (about) => drawName(about) },
  {
    name: "project",
    order: "project",
    draw: ({ job, colours }) => projectMark(job.project, colours.get(job.project) ?? null),
  },
  { name: "user", order: "user", everybody: true, draw: ({ job }) => clean(job.user) },
  { name: "GPUs", order: "-gpus", draw: ({ job }) => gpuWords(job) },
  { name: "type", several: true, draw: ({ job, types }) => typeWords(job, types) },
  { name: "progress", draw: ({ job }) => progressWords(job) },
  { name: "time", order: LATEST, draw: ({ job, now }) => timeWords(job, now) },
];
const REASON = { name: "reason", wide: true, draw: ({ job, now }) => drawReason(job, now) };

/** The jobs in the order of the column of times, if that is the order: as they are now, whenever they were listed. */
export function byTime(jobs, order) {
  if (order.replace("-", "") !== LATEST) return jobs;
  const sorted = jobs.toSorted(
    (one, other) => isFinal(one.state) - isFinal(other.state) || sinceOf(other) - sinceOf(one),
  );
  return order === LATEST ? sorted : sorted.reverse();
}

/** Whether a sweep runs: its trials have GPUs, or their next generation begins. */
function isRunningSweep({ trials, state }) {
  return Boolean(trials) && (trials.gpus > 0 || state === "running");
}

/** The time from which the column of times counts: of the end, of the start, or since when the job waits or is on hold. */
function sinceOf(job) {
  const live = job.attempts.at(-1);
  if (isFinal(job.state)) return job.ended ?? 0;
  if (live && !live.ended) return live.asked ?? live.started ?? live.created;
  if (isRunningSweep(job)) return job.started ?? job.submitted;
  return live?.ended ?? Math.max(job.submitted, job.hold?.at ?? 0);
}

/** What the rows can be grouped by, and the group of a job. */
export const GROUPS = {
  project: ({ project }) => clean(project),
  person: ({ user }) => clean(user),
  state: (job) => stateWord(briefState(job)),
  name: ({ name }) => clean(name).replace(/\d+/g, NUMBER),
  tag: ({ options }) => (options.tags.length ? clean(options.tags[0]) : "no tag"),
};

/**
 * Draws the table.
 * @param data `jobs`, `now`, `pool`, `filters`, `open`: ids of jobs whose card shows, `selection`, `href` of a job, `tagHref`:
 *   the address of the table of a tag, or null, `more`: the chosen columns, `leftOut`: names of others, `isEarlier`: whether the jobs are of an
 *   earlier search
 * @param actions `choose(filters)`, `toggle(id)`, `drawCard(node, job)`
 */
export function drawTable(data, actions) {
  const all = withOwnNames([...FIRST, ...data.more, REASON]);
  const several = new Set((data.pool?.nodes ?? []).map((node) => node.gpu_type)).size > 1;
  const columns = all.filter(
    ({ name, everybody, several: ofSeveral }) =>
      (!everybody || data.filters.everybody) && (!ofSeveral || several) && !data.leftOut.has(name),
  );
  const about = {
    ...data,
    choose: actions.choose,
    colours: new Map((data.pool?.projects ?? []).map((project) => [project.name, project.colour])),
    types: new Map((data.pool?.nodes ?? []).map((node) => [node.name, node.gpu_type])),
  };
  return h(
    "div",
    { key: "jobs", class: data.isEarlier ? "st-wide-table st-earlier" : "st-wide-table" },
    h(
      "table",
      { class: "table st-table st-jobs", "data-testid": "job-list" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          drawAll(data),
          columns.map((column) => drawHead(column, data.filters.order, actions)),
          h("th", { key: "card", scope: "col" }, h("span", { class: "st-hidden" }, "card")),
        ),
      ),
      h(
        "tbody",
        {},
        grouped(data.jobs, data.filters.group).flatMap(([group, jobs]) => [
          group !== null && drawGroup(group, jobs, data.filters.group, columns.length + 2),
          ...jobs.flatMap((job) => drawRows({ ...about, job }, columns, actions)),
        ]),
      ),
    ),
  );
}

/** The columns, each with a name of its own: an argument or a metric that is called like another column says so. */
function withOwnNames(columns) {
  const names = columns.map(({ name }) => name);
  const isTaken = ({ key, name }) => key && names.indexOf(name) !== names.lastIndexOf(name);
  const kindOf = ({ key }) => (key.startsWith("argument.") ? "argument" : "metric");
  return columns.map((column) =>
    isTaken(column) ? { ...column, name: `${column.name} (${kindOf(column)})` } : column,
  );
}

/** Pairs of a group and its jobs, in the order of the list; pinned jobs are a group of their own. */
function grouped(jobs, by) {
  const groups = new Map();
  for (const job of jobs) {
    const group = job.pinned ? PINNED : by in GROUPS ? GROUPS[by](job) : null;
    groups.set(group, [...(groups.get(group) ?? []), job]);
  }
  const isMixed = groups.has(PINNED) && groups.size > 1;
  return [...groups]
    .sort(([one], [other]) => (other === PINNED) - (one === PINNED))
    .map(([group, listed]) => [group ?? (isMixed ? OTHERS : null), listed]);
}

function drawGroup(group, jobs, by, width) {
  const words = by === "name" && group !== PINNED && group !== OTHERS ? alikeWords(jobs) : { words: group };
  return h(
    "tr",
    { key: `group ${group}`, class: "st-group-row", "data-testid": "job-group" },
    h(
      "th",
      { colspan: width, scope: "colgroup", title: words.title },
      words.words,
      h("span", { class: "st-muted" }, ` · ${jobs.length}`),
    ),
  );
}

/** `long-1 to long-12` for jobs whose names differ in their numbers alone; the name, if all have the same. */
function alikeWords(jobs) {
  const names = [...new Set(jobs.map(({ name }) => clean(name)))].sort(naturally);
  if (names.length === 1) return { words: names[0] };
  return { words: `${names[0]} to ${names.at(-1)}`, title: "Jobs whose names differ in their numbers alone" };
}

function drawAll({ jobs, selection }) {
  return h(
    "th",
    { key: "all", scope: "col" },
    h("input", {
      type: "checkbox",
      "aria-label": "Select all jobs of this page",
      checked: selection.hasAll(jobs),
      "data-testid": "select-all",
      on: { change: (event) => selection.setAll(jobs, event.target.checked) },
    }),
  );
}

function drawHead(column, chosen, { choose }) {
  const { name, order, about } = column;
  const key = keyOf(column);
  if (!order) return h("th", { key, scope: "col", "data-column": key }, name);
  const isFirst = chosen === order;
  const reversed = order.startsWith("-") ? order.slice(1) : `-${order}`;
  const isDown = isFirst === (order.startsWith("-") || LATEST_FIRST.has(order));
  const sorted = !isFirst && chosen !== reversed ? "none" : isDown ? "descending" : "ascending";
  return h(
    "th",
    { key, scope: "col", "aria-sort": sorted, "data-column": key },
    button(`sort-${key}`, [name, sortMark(sorted)], () => choose({ order: isFirst ? reversed : order }), {
      class: "st-sort",
      title: about,
    }),
  );
}

function drawRows(about, columns, { toggle, drawCard }) {
  const { job, open, selection } = about;
  const opened = open.has(job.id);
  const name = clean(job.name) || job.id;
  return [
    h(
      "tr",
      {
        key: `row ${job.id}`,
        class: isFinal(job.state) ? "st-ended" : null,
        "data-testid": "job-row",
        "data-job": job.id,
        "data-state": job.state,
      },
      h(
        "td",
        { key: "select", class: "st-check" },
        h("input", {
          type: "checkbox",
          "aria-label": `Select ${name}`,
          checked: selection.has(job.id),
          "data-testid": "select-job",
          on: { change: (event) => selection.set(job.id, event.target.checked) },
        }),
      ),
      columns.map((column) => drawCell(column, column.draw(about))),
      h(
        "td",
        { key: "card", class: "st-fold" },
        button("open-card", opened ? "▾" : "▸", () => toggle(job.id), {
          "aria-expanded": String(opened),
          "aria-label": `${opened ? "Close" : "Open"} the card of ${name}`,
        }),
      ),
    ),
    opened &&
      h(
        "tr",
        { key: `card ${job.id}`, class: "st-card-row" },
        h(
          "td",
          { class: "st-across", colspan: columns.length + 2 },
          h("article", { draw: (node) => drawCard(node, job) }),
        ),
      ),
  ];
}

function drawName({ job, href, tagHref, choose }) {
  const [shown, more] = [job.options.tags.slice(0, TAGS_SHOWN), job.options.tags.slice(TAGS_SHOWN)];
  const pick = (tag) => (event) => {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    choose({ tag });
  };
  return [
    h("a", { key: "name", href: href(job.id), title: clean(job.name), "data-testid": "row-name" }, jobName(job)),
    job.archived && h("span", { key: "archived", class: "st-muted" }, " archived"),
    shown.length > 0 &&
      h(
        "span",
        { key: "tags", class: "st-row-tags" },
        shown.map((tag) =>
          h(
            "a",
            {
              key: tag,
              href: tagHref?.(tag) ?? "#",
              class: "st-muted",
              "data-testid": "row-tag",
              on: { click: pick(tag) },
            },
            tagWord(tag),
          ),
        ),
        more.length > 0 &&
          h("span", { key: "more", class: "st-muted", title: more.map(clean).join(" ") }, `+${more.length}`),
      ),
  ];
}

function drawCell(column, content) {
  const { name, wide } = column;
  const key = keyOf(column);
  return h(
    "td",
    {
      key,
      "data-label": name,
      "data-column": key,
      "data-none": content === NONE,
      class: wide ? "st-across st-reason" : null,
    },
    content,
  );
}

/** `8`, of which `2 borrowed`; without held GPUs the requested ones, of a sweep `2 each`. */
function gpuWords(job) {
  const holds = heldBy(job),
    { workers, gpus } = job.options;
  const request = workers > 1 ? `${workers} × ${gpus}` : gpus ? amount(gpus) : "none";
  const asked = job.trials && gpus ? `${request} each` : request;
  if (!holds.gpus)
    return h(
      "span",
      { key: "gpus", class: "st-muted", title: job.trials ? "asked for by each trial" : "asked for" },
      asked,
    );
  return [
    h("span", { key: "gpus" }, amount(holds.gpus)),
    holds.borrowed > 0 && [
      " ",
      h("span", { key: "borrowed", class: "st-muted st-row-borrowed" }, `(${holds.borrowed} borrowed)`),
    ],
  ];
}

/** The number of GPUs held by a job, or by all trials of a sweep. */
function heldBy({ held, trials }) {
  return trials ?? { gpus: held.length, borrowed: held.filter((gpu) => gpu.borrowed).length };
}

function typeWords(job, types) {
  const held = [...new Set(job.held.map((gpu) => types.get(gpu.node)).filter(Boolean))];
  return clean((held.length ? held : job.options.gpu_types).join(" or ")) || NONE;
}

function progressWords(job) {
  if (job.trials)
    return h(
      "span",
      { key: "progress", class: "st-row-trials", "data-testid": "row-trials" },
      shortTrialsWords(job.trials),
    );
  const { step, of } = job.progress;
  if (!Number.isFinite(step)) return NONE;
  const share = Number.isFinite(of) && of > 0 ? Math.min(100, Math.floor((100 * step) / of)) : null;
  return h(
    "span",
    { key: "progress", title: stepWords(job.progress) },
    share === null ? stepWords(job.progress) : `${share} %`,
  );
}

function timeWords(job, now) {
  const live = job.attempts.at(-1);
  const since = sinceOf(job);
  const span = roughly(now - since);
  if (isFinal(job.state))
    return h("time", { key: "ended", title: job.ended ? exact(job.ended) : "" }, job.ended ? ago(job.ended, now) : "");
  if (live && !live.ended)
    return h(
      "span",
      { key: "runs", title: `${count(job.attempt, "attempt")} so far` },
      `${job.state === "running" ? "runs" : shownState(job)} ${span}`,
    );
  if (isRunningSweep(job))
    return h("span", { key: "runs", title: job.started ? exact(job.started) : "" }, `runs ${span}`);
  const stands = waits(job) ? "waits" : job.state === "paused" ? "paused" : "on hold";
  return h("span", { key: "waits", title: exact(since) }, `${stands} ${span}`);
}

function drawReason(job, now) {
  const reason = reasonAt(job.reason, now);
  const whole = clean(job.error) || sentencesOf(reason).join(" ");
  const line = clean(job.error) || clean(reason?.headline) || whole;
  return clamped(line, whole, { key: "reason", "data-testid": "row-reason" });
}
