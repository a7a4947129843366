/** A job's card that follows the feed of its page. */

import { isFinal } from "../base/glyphs.js";
import { ago, clockNow } from "../base/words.js";
import { OutputBrowser } from "../outputs/output_browser.js";
import { renderWorkCard } from "../views/work_card.js";
import { RerunEditor } from "./rerun_editor.js";
import { awayWords, isLive } from "./stale.js";

const TICK_MS = 1000;
const LOG_LINES = 200;
const FILES_LISTED = 20;
const CONNECTING = "Connecting to the pool…";

/**
 * Shows a job in `element`: at once as `output` has it, and live from the feed.
 * @param output `job`: Job, `at`: when it was so, `notice`
 * @param pageOf gives the address of a job's own page by its id, or null
 * @returns what ends it
 */
export function showJob(element, feed, output, pageOf) {
  const { id } = output.job;
  let watching = null;
  const ends = [];
  const draw = () => watching && drawJob(element, feed, output, watching.watched, pageOf, { editor, outputs });
  const editor = new RerunEditor(feed.call, id, draw, (job) => ends.push(showBelow(element, feed, job, pageOf)));
  const outputs = new OutputBrowser(feed.call, feed.openFile, `jobs/${encodeURIComponent(id)}`, draw, {
    most: FILES_LISTED,
    href: pageOf(id),
    target: "_blank",
  });
  watching = feed.watchJob(id, draw, output.job, true);
  const ticking = setInterval(() => isLive(feed) && draw(), TICK_MS);
  draw();
  return () => {
    clearInterval(ticking);
    watching.stop();
    for (const end of ends) end();
  };
}

/** Shows the card of a run again below that of the job. */
function showBelow(element, feed, job, pageOf) {
  const card = document.createElement("article");
  element.after(card);
  return showJob(card, feed, { job, at: clockNow() }, pageOf);
}

function drawJob(element, feed, output, watched, pageOf, { editor, outputs }) {
  const job = watched.job ?? output.job;
  const shownAt = watched.heardAt ?? output.at;
  const blocked = blockedWords(feed, watched, shownAt);
  const data = {
    job,
    now: blocked ? shownAt : clockNow(),
    points: watched.job && !job.trials ? feed.curves.of(job) : [],
    rows: watched.rows,
    pageOf,
    log: watched.job ? lastLines(watched.log.text) : null,
    notice: watched.notice ?? output.notice,
    ...feed.about(job.project),
    href: pageOf(job.id),
    target: "_blank",
    blocked,
    editor,
    outputs: watched.job && outputs,
  };
  if (watched.job) outputs.follow(watched.job);
  renderWorkCard(element, data, {
    ...(mayAct(feed.me, job) ? actionsOf(watched) : {}),
    ...rerunsOf(feed.me, job, editor),
  });
}

/** Why nothing can be done about the job, or null if it can. */
function blockedWords(feed, watched, shownAt) {
  if (watched.problem?.status === 404) return watched.problem.message;
  if (watched.job !== null && isFinal(watched.job.state)) return null;
  if (isLive(feed)) return watched.job === null ? (watched.problem?.message ?? CONNECTING) : null;
  if (feed.connection.state === "connecting" && watched.problem === null) return CONNECTING;
  return `${awayWords(feed)} The card shows the job as it was ${ago(shownAt, clockNow())}.`;
}

/** Until it is known who looks, they are taken to look at a job of their own; the pool decides. */
function mayAct(me, job) {
  return me === null || me.admin || me.name === job.user;
}

/** A job is run again by its own user alone, and a trial with its sweep. */
function rerunsOf(me, job, editor) {
  if (job.sweep || (me !== null && me.name !== job.user)) return {};
  return { rerun: () => editor.send(), edit: () => editor.open() };
}

function actionsOf(watched) {
  const act = (name) => () => watched.act(name);
  return {
    pause: act("pause"),
    resume: act("resume"),
    cancel: act("cancel"),
    finish: act("finish"),
    retry: act("retry"),
  };
}

function lastLines(text) {
  return text
    .split("\n")
    .slice(-LOG_LINES - 1)
    .join("\n");
}
