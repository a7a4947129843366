/** The quota with which a waiting job would have its GPUs within the quota of its project. */

import { clean } from "../visuals/base/words.js";

/** Reasons of waiting that end with a higher quota, and the GPUs for which it would have to be high enough. */
const WANTED = {
  "beyond-quota": ({ firm, gpus }) => firm + gpus,
  "share-used": ({ would_hold }) => would_hold,
  "no-room": ({ held, gpus, workers }) => held + gpus * workers,
  "too-soon": ({ held, gpus, workers }) => held + gpus * workers,
};

/**
 * The quota that a job lacks, or null if its project's quota is not why it waits. The quota of a project above is
 * none that its people ask for.
 * @param project of the job, as the pool has it
 * @returns `project`: its name, `type`: of the GPUs, null on a pool of one type, `gpus`: the quota
 */
export function wishOf({ reason }, project) {
  const wanted = WANTED[reason?.code];
  if (!project || !wanted || reason.params.at !== project.name) return null;
  const { params } = reason;
  const type = params.of_type ?? null;
  const present = type === null ? project.quota : (project.by_type[type]?.quota ?? null);
  const lacking = wanted(params) - (params.quota ?? Infinity);
  return present !== null && lacking > 0 ? { project: project.name, type, gpus: present + lacking } : null;
}

/** The wish as words of a button. */
export function wishWords({ project, type, gpus }) {
  return `Ask for a quota of ${gpus}${type === null ? "" : ` ${clean(type)}`} GPU${gpus === 1 ? "" : "s"} for ${clean(project)}…`;
}
