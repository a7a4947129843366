/** The project bar: held, borrowed and waiting GPUs of a project against its quota line. */

import { h, patch } from "../base/dom.js";
import { colourOf, stage } from "../base/glyphs.js";
import { amount, clean, count } from "../base/words.js";

const UNITS_SHOWN = 32;

/** The common scale of the bars of these projects, in GPUs; `pool` is the size of the pool. */
export function barScale(projects, pool = 1) {
  const most = projects.map((project) => Math.max(project.quota ?? 0, project.held + project.waiting));
  return Math.max(Math.min(pool, UNITS_SHOWN), ...most) || 1;
}

/** The project once for each GPU type, with the numbers of that type; once and unchanged if the pool has one type. */
export function byType(project) {
  const types = Object.entries(project.by_type ?? {});
  return types.length
    ? types.map(([type, numbers]) => ({ ...project, ...numbers, type }))
    : [{ ...project, type: null }];
}

/** The numbers of a project in words; a quota of null is unlimited, and one of undefined not known. */
export function standingWords(project) {
  const parts = [`${amount(project.held)} held`];
  if (project.borrowed) parts.push(`${amount(project.borrowed)} borrowed`);
  if (project.lent) parts.push(`${amount(project.lent)} lent`);
  if (project.waiting) parts.push(`${amount(project.waiting)} waiting`);
  if (project.quota === null) parts.push("quota unlimited");
  else if (project.quota !== undefined) parts.push(`quota ${amount(project.quota)}`);
  return parts.join(" · ");
}

/**
 * The bar alone, as a description for other drawings. `scale` is the number of GPUs across its width; `units` says
 * whether it is divided into these. `project.lent` is unused quota that others hold, if that is known.
 */
export function projectBar(project, scale, key = "bar", units = scale <= UNITS_SHOWN) {
  const { quota, held, borrowed, waiting, lent } = project;
  const share = (gpus) => `${(100 * Math.min(gpus, scale)) / scale}%`;
  const shown = Math.max(0, Math.min(waiting, scale - held));
  return h(
    "div",
    {
      key,
      class: "st-bar",
      style: { ...colourOf(project.colour), "--st-scale": scale },
      role: "img",
      "aria-label": `${clean(project.name)}${project.type ? `, ${clean(project.type)}` : ""}: ${standingWords(project)}`,
    },
    h("div", { key: "own", class: "st-part st-solid", style: { width: share(held - borrowed) } }),
    h("div", {
      key: "borrowed",
      class: "st-part st-hatched",
      "data-testid": "bar-borrowed",
      style: { width: share(borrowed) },
    }),
    h("div", { key: "waiting", class: "st-part st-waiting", style: { width: share(shown) } }),
    lent > 0 &&
      Number.isFinite(quota) &&
      h("div", {
        key: "lent",
        class: "st-lent",
        "data-testid": "bar-lent",
        style: { left: share(Math.max(0, quota - lent)), width: share(Math.min(lent, quota)) },
      }),
    units && h("div", { key: "units", class: "st-units" }),
    Number.isFinite(quota) &&
      h("div", { key: "quota", class: "st-quota", style: { left: share(quota) }, title: `quota ${amount(quota)}` }),
  );
}

/**
 * Draws one project: its bar and its numbers.
 * @param data `project`: ProjectView; `scale`: GPUs across, see `barScale`
 */
export function renderProjectBar(element, data) {
  const { project } = data;
  const scale = data.scale ?? barScale(byType(project));
  const last = byType(project).length - 1;
  stage(element, "st-project-bar");
  patch(
    element,
    byType(project).map((of, at) => [
      projectBar(of, scale, `bar ${of.type}`),
      h(
        "div",
        { key: `words ${of.type}`, class: "st-standing st-muted" },
        of.type && `${clean(of.type)}: `,
        standingWords(of),
        at === last && jobsWords(project),
      ),
    ]),
  );
}

function jobsWords(project) {
  const parts = [];
  if (project.running_jobs) parts.push(`${count(project.running_jobs, "job")} running`);
  if (project.waiting_jobs) parts.push(`${count(project.waiting_jobs, "job")} waiting`);
  return parts.length ? ` · ${parts.join(", ")}` : "";
}
