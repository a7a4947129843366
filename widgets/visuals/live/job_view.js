/** The card of a live job: its content and actions, and its form as an output of a notebook. */

import { isFinal } from "../base/glyphs.js";
import { wordsLast } from "../base/job_words.js";
import { whileInSight } from "../base/pace.js";
import { ago, clockNow } from "../base/words.js";
import { OutputBrowser } from "../outputs/output_browser.js";
import { renderWorkCard } from "../views/work_card.js";
import { CheckpointBrowser } from "./checkpoint_browser.js";
import { READING } from "./log_keeper.js";
import { RerunEditor } from "./rerun_editor.js";
import { awayWords, isLive } from "./stale.js";

const LOG_LINES = 200;
const LOG_TAIL = 64 * 1024;
const FILES_LISTED = 20;
const NOT_FOUND = "not_found";
const CONNECTING = "Connecting to the pool…";

/**
 * Draws the card of a job from its latest state, with the actions that the viewer may take.
 * @param editor `RerunEditor` of this card
 * @param more further or different content of the card at its place
 */
export function drawLiveCard(element, live, editor, more = {}) {
  const { feed, job, points, rows, notice } = live;
  const { user, project, sweep } = more.job ?? job;
  const data = {
    job,
    points,
    rows,
    notice,
    measured: live.measured,
    editor,
    stack: live.stack,
    intervention: live.intervention,
    projects: feed.projects,
    now: clockNow(),
    log: null,
    logOf: live.logOfTrial,
    ...feed.about(project),
    ...feed.links,
  };
  const actions = feed.mayAct({ user, project }) ? { ...live.actions } : {};
  if (feed.isOwn({ user }) && !sweep) Object.assign(actions, { rerun: () => editor.send(), edit: () => editor.open() });
  if (feed.pool?.sessions && hasProcesses(more.job ?? job)) Object.assign(actions, insideActions(live, { user }));
  if (!data.blocked) Object.assign(actions, interventions(live, more.job ?? job));
  renderWorkCard(element, { ...data, ...more }, actions);
}

/** What the viewer may do to a job that asks for GPUs: hold and release it, and change what it asks for. */
function interventions({ feed, intervention, release }, job) {
  const own = job.hold && !job.hold.project;
  const whole = !job.sweep && !job.tests && !isFinal(job.state);
  const found = {};
  if (whole && feed.mayLead(job) && own) found.release = release;
  if (whole && feed.mayLead(job) && !own) found.hold = () => intervention.open("hold");
  if (whole && feed.mayAct(job) && (job.state === "queued" || job.state === "paused"))
    found.change = () => intervention.open("edit");
  return found;
}

function hasProcesses({ state, trials }) {
  return !trials && (state === "running" || state === "pausing");
}

/** What can be done inside a running job: a terminal where one can be opened, and its stacks. */
function insideActions({ feed, id, askStack }, owner) {
  const actions = { stack: askStack };
  return feed.openTerminal && feed.isOwn(owner) ? { ...actions, terminal: () => feed.openTerminal(id) } : actions;
}

/** The forms of a job's card, and the jobs sent by them. They outlive its element, so that nothing typed is lost. */
class CardForms {
  constructor(feed, id) {
    this.id = id;
    this.sent = [];
    this.leave();
    const draw = () => this.draw();
    const sent = (job) => {
      const below = { job, kept: {} };
      this.sent.push(below);
      this.show(below);
    };
    const forks = new RerunEditor(feed.call, id, draw, sent);
    this.editor = new RerunEditor(feed.call, id, draw, sent);
    this.checkpoints = new CheckpointBrowser(feed.call, `jobs/${encodeURIComponent(id)}`, draw, forks, true);
  }

  /**
   * Begins to draw the forms with `draw`, and to show the jobs sent by them with `show`: those before and those to come.
   */
  enter(draw, show) {
    Object.assign(this, { draw, show });
    this.sent.forEach(show);
  }

  leave() {
    this.draw = () => {};
    this.show = () => {};
  }
}

/**
 * Shows a job in `element`: at once as `output` has it, and live from the feed.
 * @param output `job`: Job, `at`: the time of that state, `notice`
 * @param kept an object that the caller keeps as long as the job may be shown again; empty at first
 * @returns a function that ends the view
 */
export function showJob(element, feed, output, kept = {}) {
  const { id } = output.job;
  const ends = [];
  let view = null;
  const draw = () => view?.draw();
  if (kept.forms?.id !== id) kept.forms = new CardForms(feed, id);
  const { forms } = kept;
  const { editor, checkpoints } = forms;
  const outputs = new OutputBrowser(feed.call, feed.openFile, `jobs/${encodeURIComponent(id)}`, draw, {
    card: { most: FILES_LISTED, href: feed.links.pageOf(id), target: feed.links.target },
    board: feed.links.boardOf?.([id]),
  });
  const live = feed.live(id);
  const { stop } = feed.watchJob(id, draw, { known: output.job, tail: LOG_TAIL });
  const lasts = () => wordsLast(live.job ?? output.job, clockNow());
  const redraw = () => drawOutput(element, live, output, editor, outputs, checkpoints);
  view = whileInSight(element, redraw, lasts);
  forms.enter(draw, (below) => ends.push(showBelow(element, feed, below)));
  return () => {
    forms.leave();
    view.stop();
    stop();
    for (const end of ends) end();
  };
}

/** Shows the card of a rerun below that of the job. Returns a function that ends that view and takes it away. */
function showBelow(element, feed, { job, kept }) {
  const card = document.createElement("article");
  element.after(card);
  const end = showJob(card, feed, { job, at: clockNow() }, kept);
  return () => {
    end();
    card.remove();
  };
}

function drawOutput(element, live, output, editor, outputs, checkpoints) {
  const job = live.job ?? output.job;
  const shownAt = live.heardAt ?? output.at;
  const blocked = blockedWords(live, shownAt);
  if (live.job) outputs.follow(job);
  if (live.job) checkpoints.follow(job);
  drawLiveCard(element, live, editor, {
    job,
    now: blocked ? shownAt : clockNow(),
    log: live.job && live.log ? lastLines(live.log.text) : null,
    reading: readingOf(live.log, job),
    notice: live.notice ?? output.notice,
    href: live.feed.links.pageOf(job.id),
    blocked,
    outputs: live.job && outputs,
    checkpoints: live.job && checkpoints.drawFold(live.feed.isOwn(job)),
    results: live.job && outputs,
  });
}

/** Why there is no text of the log yet, in words; null once it was read, that of an ended job to its end. */
function readingOf(log, { ended }) {
  if (!log) return null;
  return log.reading ?? (ended !== null && !log.ended && !log.text ? READING : null);
}

/** The reason why the job's actions are disabled, or null if they are enabled. */
function blockedWords({ feed, job, problem }, shownAt) {
  const asItWas = `The card shows the job as it was ${ago(shownAt, clockNow())}.`;
  if (problem?.status === 404) return `${missingWords(problem)} ${asItWas}`;
  if (job !== null && isFinal(job.state)) return null;
  if (isLive(feed)) return job === null ? (problem?.message ?? CONNECTING) : null;
  if (feed.connection.state === "connecting" && problem === null) return CONNECTING;
  return `${awayWords(feed)} ${asItWas}`;
}

/** Why there is no job for a card. Whoever may not see a job does not learn whether it exists. */
function missingWords({ code, message }) {
  if (code !== NOT_FOUND) return message;
  return "You may not see this job, or the pool does not have it any more: My jobs lists those that you see.";
}

function lastLines(text) {
  return text
    .split("\n")
    .slice(-LOG_LINES - 1)
    .join("\n");
}
