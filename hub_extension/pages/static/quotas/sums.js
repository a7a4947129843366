/** The sums of quotas, worked out while they are being edited. */

import { h } from "../visuals/base/dom.js";
import { clean } from "../visuals/base/words.js";

/** The number that a field's text stands for; undefined if it stands for none. `none` is the word for null. */
export function parsed(text, none = null) {
  const words = String(text).trim().toLowerCase();
  if (none !== null && (words === none || words === "∞")) return null;
  return /^\d{1,7}$/.test(words) ? Number(words) : undefined;
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

/** The build quotas of all people together: their own, or the most that one of their projects gives. */
export function buildSum(people, projects) {
  const given = new Map(projects.map((project) => [project.name, project.build_quota]));
  return people.reduce((sum, person) => sum + buildQuotaOf(person, given), 0);
}

function buildQuotaOf(person, given) {
  if (person.own_build_quota !== null) return person.own_build_quota;
  return Math.max(0, ...person.projects.map((name) => given.get(name) ?? 0));
}

/** The two sums at the top of the page: what is promised against what there is. */
export function drawSums(sums) {
  return h(
    "div",
    { key: "sums", class: "st-sums" },
    drawSum("train", "Quotas of the top projects", sums.quota_sum, sums.train_gpus, "train"),
    drawSum("build", "Build quotas of all people", sums.build_quota_sum, sums.build_gpus, "build"),
  );
}

function drawSum(key, title, total, room, kind) {
  const over = Math.max(0, total - room);
  const scale = Math.max(1, total, room);
  const width = (gpus) => ({ width: `${(100 * gpus) / scale}%` });
  const words = over ? `${title}: ${total} of ${room} ${kind} GPUs, ${over} too many` : `${title}: ${total} of ${room} ${kind} GPUs, ${room - total} left`;
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

/** How the quotas of a project's children add up, where it has any. */
export function drawLevel(level) {
  if (!level) return null;
  const over = level.total - level.room;
  const words = `inside: ${level.total} of ${level.room}${over > 0 ? `, ${over} too many` : ""}`;
  return h("small", { key: "level", class: over > 0 ? "st-refusal" : "st-muted d-block" }, clean(words));
}
