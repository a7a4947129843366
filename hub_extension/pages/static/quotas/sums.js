/** The sums of quotas, updated during editing. */

import { h } from "../visuals/base/dom.js";
import { clean, count } from "../visuals/base/words.js";

const MOST = 1_000_000;

/** The words for what `parsed` takes. */
export const WHOLE = `a whole number from 0 to ${MOST}`;

/** The number in a field's text; undefined if the text is invalid. `none` is the word for null. */
export function parsed(text, none = null) {
  const words = String(text).trim().toLowerCase();
  if (none !== null && (words === none || words === "∞")) return null;
  return /^\d{1,7}$/.test(words) && Number(words) <= MOST ? Number(words) : undefined;
}

/** Quotas by level of the tree: for null (the pool) and each project with children, their sum and its room. */
export function quotaLevels(projects, trainGpus) {
  const byName = new Map(projects.map((project) => [project.name, project]));
  const levels = new Map([[null, { total: 0, room: trainGpus }]]);
  for (const project of projects) {
    const parent = byName.has(project.parent) ? project.parent : null;
    const room = parent === null ? trainGpus : (byName.get(parent).quota ?? trainGpus);
    const level = levels.get(parent) ?? { total: 0, room };
    levels.set(parent, { total: level.total + (project.quota ?? room), room });
  }
  return levels;
}

/** The build quotas of all people together, of one type or of the only one: their own, or the largest of their projects. */
export function buildSum(people, projects, type = null) {
  const of = (person) => (type === null ? person : person.by_type[type]);
  const given = new Map(
    projects.map((project) => [project.name, type === null ? project.build_quota : (project.build_by_type[type] ?? 0)]),
  );
  return people.reduce((sum, person) => sum + buildQuotaOf(of(person).own_build_quota, person.projects, given), 0);
}

function buildQuotaOf(own, projects, given) {
  if (own !== null) return own;
  return Math.max(0, ...projects.map((name) => given.get(name) ?? 0));
}

/** The sums at the top of the page, for each GPU type if there are several: the promised and the present GPUs. */
export function drawSums(sums) {
  const train = Object.entries(sums.by_type);
  const build = Object.entries(sums.build_by_type);
  const ofTrain = (train.length ? train : [["", sums]]).map(([type, of]) =>
    drawSum("train", "Quotas of the top projects", of.quota_sum, of.train_gpus, type),
  );
  const ofBuild = (build.length ? build : [["", sums]]).map(([type, of]) =>
    drawSum("build", "Build quotas of all people", of.build_quota_sum, of.build_gpus, type),
  );
  if (!train.length && !build.length) return h("div", { key: "sums", class: "st-sums" }, ofTrain, ofBuild);
  const line = (key, drawn) => h("div", { key, class: "st-sums-line" }, drawn);
  return h("div", { key: "sums", class: "st-sums" }, line("train", ofTrain), line("build", ofBuild));
}

function drawSum(environment, title, total, room, type) {
  const key = type ? `${environment}-${type}` : environment;
  const kind = type ? `${environment} ${clean(type)}` : environment;
  const over = Math.max(0, total - room);
  const scale = Math.max(1, total, room);
  const width = (gpus) => ({ width: `${(100 * gpus) / scale}%` });
  const words = `${title}: ${total} of ${count(room, `${kind} GPU`)}, ${over ? `${over} too many` : `${room - total} left`}`;
  return h(
    "div",
    { key, class: "st-sum", "data-over": String(over > 0), "data-testid": `sum-${key}` },
    h("p", { role: "status" }, over > 0 && "⚠ ", words),
    h(
      "div",
      { class: "st-bar", role: "img", "aria-label": words, style: { "--st-colour": "var(--st-muted)" } },
      h("div", { key: "within", class: "st-part st-solid", style: width(total - over) }),
      over > 0 && h("div", { key: "over", class: "st-part st-hatched st-over", style: width(over) }),
      h("div", { key: "room", class: "st-quota", style: { left: `${(100 * room) / scale}%` } }),
    ),
  );
}

/** The sum of the quotas of one GPU type of a project's children; null without any. */
export function drawLevel(level) {
  if (!level) return null;
  const over = level.total - level.room;
  const words = `inside: ${level.total} of ${level.room}${over > 0 ? `, ${over} too many` : ""}`;
  return h("small", { key: "level", class: over > 0 ? "st-refusal" : "st-muted d-block" }, words);
}
