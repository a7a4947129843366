/** A list of jobs that follows the feed of its page. */

import { stage } from "../base/glyphs.js";
import { allWordsLast } from "../base/job_words.js";
import { whileInSight } from "../base/pace.js";
import { clockNow } from "../base/words.js";
import { renderJobRows } from "../views/job_rows.js";
import { shownAt, staleWords } from "./stale.js";

/**
 * Shows jobs in `element`: at once as `output` has them, and live from the feed.
 * @param output `jobs`: list of Job, `more`: the number of jobs left out, `at`: the time of that state, `none`: what is
 *   said of an empty list that filters chose
 * @returns a function that ends the view
 */
export function showJobs(element, feed, output) {
  stage(element, "st-card");
  const rows = document.createElement("div");
  element.append(rows);
  const watching = [];
  const drawing = () => {
    const jobs = latest();
    const stale = staleWords(feed, output.at);
    renderJobRows(
      rows,
      { jobs, now: shownAt(feed, output.at), colours: feed.colours, more: output.more, stale, none: output.none },
      feed.links.pageOf,
    );
  };
  const latest = () => output.jobs.map((job) => feed.jobs.get(job.id)?.job ?? job);
  const view = whileInSight(element, drawing, () => allWordsLast(latest(), clockNow()));
  for (const job of output.jobs) watching.push(feed.watchJob(job.id, view.draw, { known: job }));
  return () => {
    view.stop();
    for (const { stop } of watching) stop();
  };
}
