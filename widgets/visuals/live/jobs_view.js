/** A list of jobs that follows the feed of its page. */

import { stage } from "../base/glyphs.js";
import { clockNow } from "../base/words.js";
import { renderJobRows } from "../views/job_rows.js";
import { staleWords } from "./stale.js";

const TICK_MS = 1000;

/**
 * Shows jobs in `element`: at once as `output` has them, and live from the feed.
 * @param output `jobs`: list of Job, `more`: so many are left out, `at`: when it was so
 * @param pageOf gives the address of a job's own page by its id, or null
 * @returns what ends it
 */
export function showJobs(element, feed, output, pageOf) {
  stage(element, "st-card");
  const rows = document.createElement("div");
  element.append(rows);
  const watching = [];
  const draw = () => {
    const jobs = output.jobs.map((job) => feed.jobs.get(job.id)?.job ?? job);
    const stale = staleWords(feed, output.at);
    renderJobRows(
      rows,
      { jobs, now: stale ? output.at : clockNow(), colours: coloursOf(feed), more: output.more, stale },
      pageOf,
    );
  };
  for (const job of output.jobs) watching.push(feed.watchJob(job.id, draw, job));
  const ticking = setInterval(draw, TICK_MS);
  draw();
  return () => {
    clearInterval(ticking);
    for (const { stop } of watching) stop();
  };
}

/** The colours of the projects that are known. */
export function coloursOf(feed) {
  return new Map((feed.pool?.projects ?? []).map((project) => [project.name, project.colour]));
}
