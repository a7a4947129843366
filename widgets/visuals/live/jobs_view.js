/** A list of jobs that follows the feed of its page. */

import { stage } from "../base/glyphs.js";
import { clockNow } from "../base/words.js";
import { renderJobRows } from "../views/job_rows.js";
import { staleWords } from "./stale.js";

const TICK_MS = 1000;

/**
 * Shows jobs in `element`: at once as `output` has them, and live from the feed.
 * @param output `jobs`: list of Job, `more`: the number of jobs left out, `at`: the time of that state
 * @returns a function that ends the view
 */
export function showJobs(element, feed, output) {
  stage(element, "st-card");
  const rows = document.createElement("div");
  element.append(rows);
  const watching = [];
  const draw = () => {
    const jobs = output.jobs.map((job) => feed.jobs.get(job.id)?.job ?? job);
    const stale = staleWords(feed, output.at);
    renderJobRows(
      rows,
      { jobs, now: stale ? output.at : clockNow(), colours: feed.colours, more: output.more, stale },
      feed.links.pageOf,
    );
  };
  for (const job of output.jobs) watching.push(feed.watchJob(job.id, draw, { known: job }));
  const ticking = setInterval(draw, TICK_MS);
  draw();
  return () => {
    clearInterval(ticking);
    for (const { stop } of watching) stop();
  };
}
