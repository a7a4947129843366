/** The differences among compared jobs: a table with a column for each job, and the changes of their code. */

import { jobPath } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { stateMark } from "../visuals/base/glyphs.js";
import { distinctNames } from "../visuals/base/job_words.js";
import { amount, clean, cleanLines, count } from "../visuals/base/words.js";
import { runKey } from "../visuals/charts/overlay_chart.js";
import { drawParent } from "../visuals/views/lineage.js";

const NONE = "–";
/** Kinds of differences that are shown as letters. */
const LETTERED = new Set(["variable", "file"]);
const CHANGES = { "+": "st-added", "-": "st-removed", "@": "st-muted" };

/**
 * The table of differences.
 * @param found a Comparison
 * @param without returns the address of the comparison without a job; null if only two jobs are compared
 */
export function drawDifferences({ jobs, differences }, without) {
  const values = [...new Set(jobs.flatMap((job) => Object.keys(job.progress.values)))];
  return [
    h(
      "div",
      { key: "table", class: "st-compare-scroll", tabindex: 0, role: "region", "aria-label": "What differs" },
      h(
        "table",
        { class: "table st-compare", "data-testid": "differences" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("td", { key: "none" }),
            distinctNames(jobs).map((name, place) => drawHead(jobs[place], name, place, without)),
          ),
        ),
        h(
          "tbody",
          {},
          drawRow(
            "state",
            "state",
            jobs.map((job) => stateMark(job)),
          ),
          jobs.some(({ rerun }) => rerun?.fork) &&
            drawRow(
              "forked from",
              "forked from",
              jobs.map((job) => drawParent(job, jobPath) ?? NONE),
            ),
          differences.map(({ kind, name, values: cells }) =>
            drawRow(
              `${kind} ${name}`,
              LETTERED.has(kind) ? [`${kind} `, clean(name)] : clean(name),
              cells.map((value) => h("span", { class: "st-clamped", title: cleanLines(value) }, cleanLines(value))),
            ),
          ),
          drawRow(
            "step",
            "step reached",
            jobs.map(({ progress }) => (Number.isFinite(progress.step) ? amount(progress.step) : NONE)),
          ),
          values.map((name) =>
            drawRow(
              `best ${name}`,
              ["best ", clean(name)],
              jobs.map(({ progress }) => (progress.best[name] ? amount(progress.best[name].value) : NONE)),
            ),
          ),
          values.map((name) =>
            drawRow(
              `last ${name}`,
              ["last ", clean(name)],
              jobs.map(({ progress }) => amount(progress.values[name])),
            ),
          ),
        ),
      ),
    ),
    !differences.length &&
      h(
        "p",
        { key: "alike", class: "st-muted", "data-testid": "alike" },
        "They were submitted with the same options, command and files.",
      ),
    differences.some(({ kind }) => LETTERED.has(kind)) &&
      h("p", { key: "letters", class: "st-muted" }, "Environment variables and files: same letter = same content."),
  ];
}

function drawHead(job, name, place, without) {
  return h(
    "th",
    { key: job.id, scope: "col", "data-testid": "compared-job" },
    h(
      "div",
      { key: "tools", class: "st-compared-tools" },
      runKey(place),
      without &&
        h(
          "a",
          {
            key: "without",
            class: "st-button st-without",
            href: without(job.id),
            "aria-label": `Compare without ${name}`,
            "data-testid": "compare-without",
          },
          "×",
        ),
    ),
    h("a", { key: "name", class: "st-clamped", href: jobPath(job.id), title: name }, h("bdi", {}, name)),
  );
}

function drawRow(key, head, cells) {
  const title = [head].flat().join("");
  return h(
    "tr",
    { key, "data-testid": "difference" },
    h("th", { key: "head", scope: "row" }, h("span", { class: "st-clamped", title }, head)),
    cells.map((cell, place) => h("td", { key: place }, cell)),
  );
}

/** The changes in the code of each job from that of the first one. */
export function drawCode({ jobs, code }) {
  const first = clean(jobs[0].name) || jobs[0].id;
  if (!jobs.some(hasCode))
    return h(
      "p",
      { class: "st-muted", "data-testid": "no-code" },
      "These jobs run commands. How the commands and the files of their projects differ is in the table above.",
    );
  if (!hasCode(jobs[0]))
    return h(
      "p",
      { class: "st-muted" },
      `${first}, the first of these jobs, runs a command, so there is no code to compare with.`,
    );
  if (jobs.every(hasCode) && code.every((change) => change?.length === 0))
    return h("p", { class: "st-muted", "data-testid": "same-code" }, "The code of all of them is the same.");
  return jobs.map((job, place) => place > 0 && drawChange(job, code[place], first));
}

function hasCode({ kind }) {
  return kind !== "command";
}

function drawChange(job, change, first) {
  const name = clean(job.name) || job.id;
  if (!hasCode(job)) return h("p", { key: job.id, class: "st-muted" }, `${name} runs a command.`);
  if (change === null)
    return h(
      "p",
      { key: job.id, class: "st-muted" },
      `The code of ${name} differs from that of ${first}, and is too long to compare line by line.`,
    );
  if (!change.length) return h("p", { key: job.id, class: "st-muted" }, `The code of ${name} is that of ${first}.`);
  const changed = change.filter((line) => "+-".includes(line[0])).length;
  return h(
    "details",
    { key: job.id, open: true, "data-testid": "code-change" },
    h("summary", {}, `${name}: ${count(changed, "line")} changed from ${first}`),
    h(
      "pre",
      { class: "st-log st-code", tabindex: 0, "aria-label": `Changes of ${name}` },
      change.map((line, at) => h("span", { key: at, class: CHANGES[line[0]] ?? null }, `${cleanLines(line)}\n`)),
    ),
  );
}
