/** The state of one job, updated by events and answers of the API, and read by all views of the job. */

import { isFinal } from "../base/glyphs.js";
import { attemptMark, waits } from "../base/job_words.js";
import { calmly, oneByOne, together } from "../base/pace.js";
import { clockNow } from "../base/words.js";
import { AWAY, Refused } from "./api.js";
import { Intervention } from "./intervention.js";
import { LogKeeper } from "./log_keeper.js";
import { StackKeeper } from "./stack_keeper.js";
import { TrialKeeper } from "./trial_keeper.js";

const ACTIONS = ["pause", "resume", "cancel", "end", "finish", "retry"];
const DELETED = new Refused({ status: 404, code: "deleted", message: "The job was deleted." });
const FETCH_EVERY_S = 0.5;
const LOG_EVERY_S = 1;
/** Length of the end of a trial's log that is read, in bytes. */
const TRIAL_TAIL = 8 * 1024;
const USAGE_EVERY_S = 15;
const AGAIN_MS = 2000;
const TOO_MANY = 429;
const START_EVERY_S = 20;
const UNKNOWN_START_EVERY_S = 2;

/** Whether the same request may succeed later. */
function isPassing({ status }) {
  return status === 0 || status === TOO_MANY || status >= 500;
}

export class LiveJob {
  /** @param feed its `PoolFeed` */
  constructor(feed, id) {
    this.feed = feed;
    this.id = id;
    this.path = `jobs/${encodeURIComponent(id)}`;
    this.job = null;
    this.heardAt = null;
    this.problem = null;
    this.notice = null;
    this.missed = false;
    this.measured = null;
    this.views = new Set();
    this.lists = new Set();
    this.lastEvent = 0;
    this.fetchedAt = 0;
    this.epoch = null;
    /** Whether a view shows fields that events leave out, so that each event has the job fetched. */
    this.isWhole = false;
    this.log = null;
    this.trials = null;
    this.trialLogs = new Map();
    this.stack = new StackKeeper(feed.call, this.path, () => this.changed());
    this.actions = Object.fromEntries(ACTIONS.map((name) => [name, () => this.#act(name)]));
    this.intervention = new Intervention(
      (what, body) => this.#intervene(what, body),
      () => this.changed(),
    );
    this.actions.measure = () => this.#delete(true);
    this.actions.delete = () => this.#delete(false);
    this.fetch = oneByOne(() => this.#fetch(), FETCH_EVERY_S);
    this.usageChanged = together(() => this.changed(), USAGE_EVERY_S);
    this.readLog = calmly(() => this.log?.read(), LOG_EVERY_S);
  }

  /** Whether the job has ended or does not exist. */
  get settled() {
    return this.problem?.status === 404 || (this.job !== null && isFinal(this.job.state));
  }

  /** The points of its metrics read so far. */
  get points() {
    return this.job && !this.job.trials ? this.feed.curves.of(this.job) : [];
  }

  /** The rows of a sweep's trials, read on first use; null until then. */
  get rows() {
    if (!this.job?.trials) return null;
    this.trials ??= new TrialKeeper(this.feed.call, this.id, () => this.changed());
    this.trials.follow(this.job.trials);
    return this.trials.rows;
  }

  /** The end of the log of a trial by its id, read on first use: its `text`, and why there is none yet, `reading`. */
  logOfTrial = (id) => {
    if (!this.trialLogs.has(id)) {
      const { call } = this.feed;
      const path = `jobs/${encodeURIComponent(id)}`;
      const isShown = () => this.views.size > 0;
      const log = new LogKeeper(
        call,
        path,
        () => this.changed(),
        TRIAL_TAIL,
        () => "",
        isShown,
      );
      this.trialLogs.set(id, log);
      log.read();
    }
    return this.trialLogs.get(id);
  };

  forgetTrials() {
    this.trials?.stop();
    this.trials = null;
    this.trialLogs.clear();
  }

  /** Keeps the end of its log, at first the last `tail` bytes. A sweep has none. */
  followLog(tail) {
    if (this.log || this.job?.trials) return;
    const mark = (number) => attemptMark(this.job, number, clockNow());
    const isShown = () => this.views.size > 0;
    this.log = new LogKeeper(this.feed.call, this.path, () => this.changed(), tail, mark, isShown);
    if (this.job) this.log.read();
  }

  changed() {
    for (const view of this.views) view();
    for (const list of this.lists) list.changed();
  }

  async #fetch() {
    const then = this.feed.events;
    this.epoch = this.feed.epoch;
    this.fetchedAt = clockNow();
    try {
      const job = await this.feed.call("GET", this.path);
      this.problem = null;
      if (this.missed) this.notice = null;
      this.missed = false;
      this.take(job, then);
      this.trials?.read();
      this.readLog();
    } catch (error) {
      this.problem = error;
      this.epoch = null;
      if (isPassing(error)) setTimeout(() => this.views.size > 0 && this.fetch(), AGAIN_MS);
    }
    this.feed.looked();
    this.changed();
  }

  /**
   * Updates the job from an event, or from an answer. `then`: the number of events at the time of the request; a later
   * event is newer than the answer, which then only adds the fields that events leave out.
   */
  take(job, then = Infinity) {
    const before = this.job;
    this.job = this.lastEvent > then && before ? merged(job, before) : merged(before, job);
    this.heardAt = clockNow();
    if (before && isFinal(job.state) && !isFinal(before.state)) this.readLog();
    this.trials?.follow(this.job.trials);
  }

  hear(job) {
    this.lastEvent = this.feed.events;
    this.notice = null;
    this.take(job);
    if (this.views.size > 0 && (this.isWhole || (waits(job) && !job.starts))) this.fetch();
    this.changed();
  }

  hearDeleted() {
    this.problem = DELETED;
    this.notice = null;
    this.feed.looked();
    this.changed();
  }

  hearProgress({ progress, saved, saved_step: savedStep, checkpoint }) {
    this.#hearPart({
      progress,
      saved: saved ?? this.job?.saved,
      saved_step: savedStep ?? this.job?.saved_step,
      checkpoint,
    });
  }

  /** Each job is measured at a time of its own, and those of a page are drawn together. */
  hearUsage({ usage }) {
    this.#hearPart({ usage }, this.usageChanged);
  }

  #hearPart(part, draw = () => this.changed()) {
    if (this.job === null) return;
    this.lastEvent = this.feed.events;
    this.job = { ...this.job, ...part };
    this.heardAt = clockNow();
    draw();
  }

  /** Fetches a waiting job at intervals, which keeps its expected start up to date. */
  look() {
    if (this.job === null || !waits(this.job)) return;
    const pace = this.job.starts ? START_EVERY_S : UNKNOWN_START_EVERY_S;
    if (clockNow() - this.fetchedAt > pace) this.fetch();
  }

  /** Fetches and shows where the job is now. */
  askStack = async () => {
    this.notice = null;
    try {
      await this.stack.ask();
    } catch (error) {
      this.#refused(error);
      this.changed();
    }
  };

  /** Deletes the job, which has ended; or only measures its files, for the question before. */
  async #delete(measures) {
    this.notice = null;
    this.measured = null;
    try {
      const deletion = await this.feed.call("DELETE", `${this.path}${measures ? "?dry_run=1" : ""}`);
      if (measures) this.measured = deletion;
      else this.feed.hearDeleted(this.id);
    } catch (error) {
      this.#refused(error);
    }
    this.changed();
  }

  async #intervene(what, body) {
    const then = this.feed.events;
    const job = await this.feed.call("POST", `${this.path}/${what}`, body);
    if (this.lastEvent <= then) this.feed.hearJob(job);
  }

  /** Lets the job, which is on hold, start again. */
  release = async () => {
    this.notice = null;
    try {
      await this.#intervene("release", {});
    } catch (error) {
      this.#refused(error);
      this.changed();
    }
  };

  /** Shows why an action was refused; that the pool was away only until it answers. */
  #refused({ message, code }) {
    this.notice = message;
    this.missed = code === AWAY;
  }

  async #act(name) {
    this.notice = null;
    try {
      const then = this.feed.events;
      const job = await this.feed.call("POST", `${this.path}/${name}`);
      if (this.lastEvent <= then) this.feed.hearJob(job);
    } catch (error) {
      this.#refused(error);
    }
    this.changed();
  }
}

/** The newer version of a job, with the fields that events and lists leave out: earlier attempts, what happened and the environment. */
function merged(older, newer) {
  const first = newer.attempts[0]?.number ?? Infinity;
  return {
    ...newer,
    source: newer.source || older?.source || "",
    environment: newer.environment ?? older?.environment,
    chosen: newer.chosen?.length ? newer.chosen : (older?.chosen ?? []),
    timeline: newer.timeline?.length ? newer.timeline : (older?.timeline ?? []),
    attempts: [...(older?.attempts ?? []).filter(({ number }) => number < first), ...newer.attempts],
  };
}
