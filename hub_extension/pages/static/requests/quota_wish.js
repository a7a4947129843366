/** The quota with which a waiting job would start, as the pool has found by planning with it. */

import { clean } from "../visuals/base/words.js";

/**
 * The quota that a job lacks, or null if no higher quota of its project alone lets it start within the pool. The quota
 * of a project above is none that its people ask for.
 * @param project of the job, as the pool has it
 * @returns `project`: its name, `type`: of the GPUs, null on a pool of one type, `gpus`: the quota
 */
export function wishOf(job, project) {
  const raises = ({ quota }) => quota && Object.keys(quota).join() === project?.name;
  const found = (job.starts_if ?? []).find(raises);
  if (!found) return null;
  const quota = found.quota[project.name];
  if (Number.isFinite(quota)) return { project: project.name, type: null, gpus: quota };
  const raised = Object.entries(quota ?? {}).find(([type, gpus]) => gpus > (project.by_type[type]?.quota ?? Infinity));
  return raised ? { project: project.name, type: raised[0], gpus: raised[1] } : null;
}

/** The wish as words of a button. */
export function wishWords({ project, type, gpus }) {
  return `Ask for a quota of ${gpus}${type === null ? "" : ` ${clean(type)}`} GPU${gpus === 1 ? "" : "s"} for ${clean(project)}…`;
}
