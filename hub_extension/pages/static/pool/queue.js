/** The queue: the waiting jobs of each project in order, with their reasons. */

import { jobPath } from "../site.js";
import { dataCells, tableHead } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { emptyState, projectMark, stateMark } from "../visuals/base/glyphs.js";
import { askWords, isReserved, reasonAt, sentencesOf, startWords } from "../visuals/base/job_words.js";
import { shortTrialsWords } from "../visuals/base/sweep_words.js";
import { clean, count, roughly } from "../visuals/base/words.js";
import { treeOrder } from "../visuals/views/pool_glance.js";

const HEADS = ["place", "state", "job", "user", "asks for", "waits", "reason", "expected"];
const CLASSES = { user: "st-words", reason: "st-across st-reason", expected: "st-across st-reason" };
const LAST = Number.MAX_SAFE_INTEGER;
const RESERVED = -1;

/**
 * The table of waiting jobs, without those paused by their users. `jobs`: those that the viewer may see; the others are
 * counted.
 */
export function drawQueue(pool, jobs, now) {
  const lines = treeOrder(pool.projects).filter(({ project }) => project.waiting_jobs > 0);
  if (!lines.length) return emptyState("The queue is empty.", "New jobs start as soon as enough GPUs are idle.");
  return h(
    "div",
    { key: "queue", class: "st-wide-table" },
    h(
      "table",
      { class: "table st-table st-queue", "data-testid": "queue" },
      tableHead(HEADS),
      lines.map(({ project }) =>
        drawLine(
          project,
          jobs.filter((job) => job.project === project.name && !job.held_by_user && !job.hold),
          now,
        ),
      ),
    ),
  );
}

function drawLine(project, jobs, now) {
  const line = jobs.toSorted((one, other) => placeOf(one) - placeOf(other));
  const hidden = project.waiting_jobs - line.length;
  return h(
    "tbody",
    { key: project.name, "data-testid": `queue-${clean(project.name)}` },
    h(
      "tr",
      { key: "project", class: "st-line" },
      h(
        "th",
        { scope: "rowgroup", class: "st-across", colspan: HEADS.length },
        projectMark(project.name, project.colour),
        h(
          "span",
          { class: "st-muted" },
          ` · ${count(project.waiting_jobs, "job")} ${project.waiting_jobs === 1 ? "waits" : "wait"}, ${count(project.waiting, "more GPU")} requested`,
        ),
      ),
    ),
    line.map((job) => drawJob(job, now)),
    hidden > 0 &&
      h(
        "tr",
        { key: "hidden" },
        h(
          "td",
          { class: "st-across st-muted", colspan: HEADS.length },
          line.length ? `and ${count(hidden, "other")}` : `${count(hidden, "job")} of others`,
        ),
      ),
  );
}

/** The place in the queue. Jobs with reserved GPUs come before it. */
function placeOf(job) {
  return isReserved(job) ? RESERVED : (job.place ?? LAST);
}

/** `3`; if there is a queue for each GPU type, `3 · t4`. */
function placeWords(job) {
  if (isReserved(job)) return "reserved";
  const type = job.reason?.params?.of_type;
  return `${job.place ?? "–"}${type && job.place ? ` · ${clean(type)}` : ""}`;
}

function drawJob(job, now) {
  const since = job.attempts.at(-1)?.ended ?? job.submitted;
  const reason = reasonAt(job.reason, now);
  const whole = sentencesOf(reason).join(" ");
  const cells = [
    placeWords(job),
    stateMark(job),
    h("a", { href: jobPath(job.id), title: clean(job.name) }, clean(job.name) || job.id),
    clean(job.user),
    job.trials ? `${askWords(job)} (${shortTrialsWords(job.trials)})` : askWords(job),
    job.trials?.running ? "–" : roughly(now - since),
    h("span", { key: "reason", title: whole }, clean(reason?.headline) || whole),
    startWords(job, now) ?? "–",
  ];
  return h("tr", { key: job.id, "data-testid": "queue-row", "data-job": job.id }, dataCells(HEADS, cells, CLASSES));
}
