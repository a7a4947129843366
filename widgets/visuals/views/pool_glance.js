/** The pool at a glance: each project's quota, held, borrowed and waiting GPUs, and the allocation of the pool. */

import { h, patch } from "../base/dom.js";
import { emptyState, projectMark, simulatedMark, stage } from "../base/glyphs.js";
import { amount, clean, count, freeWords } from "../base/words.js";
import { barScale, byType, projectBar } from "../charts/project_bar.js";

/**
 * Draws the pool at a glance.
 * @param data `pool`: PoolView; `mine`: names of the caller's own projects, shown first; `tree`: whether each
 *   project is shown below its parent instead
 */
export function renderPoolGlance(element, data) {
  const { pool } = data;
  const mine = new Set(data.mine ?? []);
  const inTree = data.tree || !mine.size;
  const first = (one, other) => mine.has(other.project.name) - mine.has(one.project.name);
  const projects = inTree ? treeOrder(pool.projects) : treeOrder(pool.projects).sort(first);
  const scale = barScale(pool.projects.flatMap(byType), pool.train_gpus);
  stage(element, "st-glance");
  patch(
    element,
    drawTotals(pool),
    projects.length
      ? h(
          "div",
          { key: "projects", class: "st-rows", role: "table", "aria-label": "Projects" },
          heads(),
          projects.flatMap(({ project, depth }) =>
            byType(project).map((of, at) => drawProject(of, at === 0, inTree ? depth : 0, scale, mine)),
          ),
        )
      : emptyState("There are no projects yet.", "An admin adds the first one on the admin page."),
  );
}

/** Projects with their children below them, each with its depth in the tree. */
export function treeOrder(projects) {
  const names = new Set(projects.map((project) => project.name));
  const children = Map.groupBy(projects, (project) => (names.has(project.parent) ? project.parent : null));
  const placed = new Set();
  const below = (parent, depth) =>
    (children.get(parent) ?? []).flatMap((project) => {
      if (placed.has(project.name)) return [];
      placed.add(project.name);
      return [{ project, depth }, ...below(project.name, depth + 1)];
    });
  return below(null, 0);
}

function drawTotals(pool) {
  const types = Object.entries(pool.by_type ?? {});
  return h(
    "p",
    { key: "totals", class: "st-totals" },
    types.length > 0
      ? types.map(([type, of], at) =>
          h(
            "strong",
            { key: `of ${type}` },
            `${at ? ", " : ""}${of.train_held} of ${count(of.train_gpus, `train ${clean(type)} GPU`)} held`,
          ),
        )
      : h("strong", {}, `${pool.train_held} of ${count(pool.train_gpus, "train GPU")} held`),
    `, ${freeWords(pool.train_free)}`,
    pool.build_gpus > 0 && ` · ${pool.build_held} of ${count(pool.build_gpus, "build GPU")} in workspaces `,
    simulatedMark(pool.simulated),
  );
}

function heads() {
  const head = (words, classes) => h("span", { role: "columnheader", class: classes }, words);
  return h(
    "div",
    { key: "heads", class: "st-row st-heads st-muted", role: "row" },
    head("project"),
    head("held against quota", "st-wide"),
    head("quota", "st-number"),
    head("held", "st-number"),
    head("borrowed", "st-number"),
    head("waiting", "st-number"),
  );
}

/** A row of a project, for one GPU type if there are several; the `first` row has the name. */
function drawProject(project, first, depth, scale, mine) {
  const number = (label, value) =>
    h(
      "span",
      { key: label, role: "cell", class: value ? "st-number" : "st-number st-muted", "data-label": label },
      value,
    );
  return h(
    "div",
    {
      key: `project ${project.name} ${project.type}`,
      class: "st-row",
      role: "row",
      "data-testid": `glance-${clean(project.name)}${project.type ? `-${clean(project.type)}` : ""}`,
      "data-mine": String(mine.has(project.name)),
    },
    h(
      "span",
      { key: "name", role: "rowheader", class: "st-name", style: { "--st-depth": depth } },
      first && projectMark(project.name, project.colour),
      project.type &&
        h("small", { key: "type", class: "st-muted st-type" }, `${first ? " · " : ""}${clean(project.type)}`),
    ),
    h("span", { key: "bar", role: "cell", class: "st-wide" }, projectBar(project, scale)),
    number("quota", project.quota === null ? "∞" : amount(project.quota)),
    number("held", amount(project.held)),
    number("borrowed", project.borrowed ? amount(project.borrowed) : 0),
    number("waiting", project.waiting ? amount(project.waiting) : 0),
  );
}
