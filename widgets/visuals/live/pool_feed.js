/** What the cards of one page know of the pool: one event stream for all, and a fetch only of what it left out. */

import { isFinal } from "../base/glyphs.js";
import { waits } from "../base/job_words.js";
import { clockNow } from "../base/words.js";
import { CurveKeeper } from "./curves.js";
import { followStream } from "./event_stream.js";
import { LogKeeper } from "./log_keeper.js";
import { TrialKeeper } from "./trial_keeper.js";

const LOG_TAIL = 64 * 1024;
const LOG_EVERY_MS = 1000;
const AGAIN_MS = 2000;
const TOO_MANY = 429;
const START_EVERY_S = 20;
const UNKNOWN_START_EVERY_S = 2;
const MINE = "jobs?mine=1&limit=50";

/** Whether asking again later may help. */
function isPassing({ status }) {
  return status === 0 || status === TOO_MANY || status >= 500;
}

/** One job as the cards that watch it see it. */
class WatchedJob {
  constructor(feed, id) {
    this.feed = feed;
    this.id = id;
    this.path = `jobs/${encodeURIComponent(id)}`;
    this.job = null;
    this.heardAt = null;
    this.problem = null;
    this.notice = null;
    this.views = new Set();
    this.events = 0;
    this.fetchedAt = 0;
    this.fetching = false;
    this.epoch = null;
    this.readsLog = false;
    this.trials = null;
    this.log = new LogKeeper(feed.call, this.path, () => this.changed(), LOG_TAIL);
  }

  get settled() {
    return this.problem?.status === 404 || (this.job !== null && isFinal(this.job.state));
  }

  /** The rows of a sweep's trials, read when they are first asked for; null until they are known. */
  get rows() {
    if (!this.job?.trials) return null;
    this.trials ??= new TrialKeeper(this.feed.call, this.id, () => this.changed());
    this.trials.follow(this.job.trials);
    return this.trials.rows;
  }

  forgetTrials() {
    this.trials?.stop();
    this.trials = null;
  }

  changed() {
    for (const view of this.views) view();
  }

  /** Asks for the job, once for all who want it now. */
  async fetch() {
    if (this.fetching) return;
    this.fetching = true;
    const then = this.events;
    const { epoch } = this.feed;
    this.fetchedAt = clockNow();
    try {
      const job = await this.feed.call("GET", this.path);
      if (then === this.events || this.job === null) this.job = job;
      this.problem = null;
      this.heardAt = clockNow();
      this.epoch = epoch;
      this.trials?.read();
      this.#readLog();
    } catch (error) {
      this.problem = error;
    }
    this.fetching = false;
    this.feed.looked();
    this.changed();
    if (this.problem === null && epoch !== this.feed.epoch && !this.settled) this.fetch();
    if (this.problem !== null && isPassing(this.problem))
      setTimeout(() => this.views.size > 0 && this.fetch(), AGAIN_MS);
  }

  /** Events have the latest attempts only, and not what the job runs. */
  hear(job) {
    this.events += 1;
    const first = job.attempts[0]?.number ?? Infinity;
    const earlier = (this.job?.attempts ?? []).filter((attempt) => attempt.number < first);
    const ended = isFinal(job.state) && !isFinal(this.job?.state ?? job.state);
    this.job = { ...job, source: this.job?.source ?? "", attempts: [...earlier, ...job.attempts] };
    this.notice = null;
    this.heardAt = clockNow();
    if (ended) this.#readLog();
    this.changed();
  }

  hearProgress({ progress, saved, saved_step: savedStep }) {
    if (this.job === null) return;
    this.events += 1;
    this.job = { ...this.job, progress, saved: saved ?? this.job.saved, saved_step: savedStep ?? this.job.saved_step };
    this.heardAt = clockNow();
    this.changed();
  }

  hearUsage(usage) {
    if (this.job === null) return;
    this.job = { ...this.job, usage };
    this.changed();
  }

  hearLog() {
    this.reading ??= setTimeout(() => {
      this.reading = null;
      this.#readLog();
    }, LOG_EVERY_MS);
  }

  #readLog() {
    if (this.readsLog && !this.job?.trials) this.log.read();
  }

  /** Looking is what keeps the expected start of a waiting job up to date. */
  hearPool() {
    if (this.job === null || !waits(this.job)) return;
    const pace = this.job.starts ? START_EVERY_S : UNKNOWN_START_EVERY_S;
    if (clockNow() - this.fetchedAt > pace) this.fetch();
  }

  async act(name) {
    this.notice = null;
    try {
      const then = this.events;
      const job = await this.feed.call("POST", `${this.path}/${name}`);
      if (then === this.events) this.hear(job);
    } catch (error) {
      this.notice = error.message;
    }
    this.changed();
  }
}

export class PoolFeed {
  /**
   * @param call asks the API: `call(method, path)` promises the answer's body, or throws with `status` and `message`
   * @param open opens the event stream: `open(headers, signal)` promises a `Response`
   * @param openFile opens a file of the API: `openFile(path)` promises a `Response`, or throws as `call` does
   */
  constructor(call, open, openFile) {
    this.call = call;
    this.open = open;
    this.openFile = openFile;
    this.connection = { state: "connecting", problem: null, since: clockNow() };
    this.pool = null;
    this.me = null;
    this.mine = null;
    this.jobs = new Map();
    this.curves = new CurveKeeper(call, () => this.#tell());
    this.poolViews = new Set();
    this.listViews = new Set();
    this.stream = null;
    this.epoch = 0;
    this.wasLive = false;
    this.listProblem = null;
    this.asked = new Set();
    this.poolsHeard = 0;
    this.readingMine = false;
    this.mineAgain = false;
  }

  /**
   * Shows a job by calling `view` after each change; answers `{ watched, stop }`. Cards of one job share it.
   * It is asked for once the stream is open, so that nothing happens unseen between the two.
   * @param known the job as it was once: of one that has ended only the log is asked for
   * @param readsLog whether its log is shown
   */
  watchJob(id, view, known = null, readsLog = false) {
    if (!this.jobs.has(id)) this.jobs.set(id, new WatchedJob(this, id));
    const watched = this.jobs.get(id);
    watched.views.add(view);
    watched.readsLog ||= readsLog;
    if (known !== null && isFinal(known.state)) watched.job ??= known;
    if (watched.settled ? readsLog && watched.epoch === null : this.#hears && watched.epoch !== this.epoch)
      watched.fetch();
    this.looked();
    const stop = () => {
      this.#leave(watched.views, view);
      if (watched.views.size === 0) watched.forgetTrials();
    };
    return { watched, stop };
  }

  /** Shows the pool by calling `view` after each change; answers `{ stop }`. */
  watchPool(view) {
    return this.#watch(this.poolViews, view);
  }

  /** Shows the caller's own jobs, the newest, as `mine`; answers `{ stop }`. */
  watchMine(view) {
    if (this.#hears) this.#fetchMine();
    return this.#watch(this.listViews, view);
  }

  /** The colour of a project, and whether GPUs are simulated; undefined until the pool is known. */
  about(project) {
    const found = this.pool?.projects.find((each) => each.name === project);
    return { colour: found?.colour ?? null, simulated: this.pool?.simulated };
  }

  /** Opens the stream if something that can change is shown, and closes it if nothing is. */
  looked() {
    const needed = this.poolViews.size + this.listViews.size > 0 || this.#shown().some((watched) => !watched.settled);
    if (needed && this.stream === null) this.#start();
    if (!needed && this.stream !== null) {
      this.stream.stop();
      this.stream = null;
      this.wasLive = false;
      this.epoch += 1;
      this.connection = { state: "connecting", problem: null, since: clockNow() };
    }
    if (this.me === null) this.#fetchMe();
    if (!needed && this.pool === null && this.#shown().length > 0) this.#fetchPool();
  }

  #watch(views, view) {
    views.add(view);
    this.looked();
    return { stop: () => this.#leave(views, view) };
  }

  #leave(views, view) {
    views.delete(view);
    this.looked();
  }

  #shown() {
    return [...this.jobs.values()].filter((watched) => watched.views.size > 0);
  }

  #start() {
    const on = {
      job: (job) => this.#hearJob(job),
      progress: (data) => this.#hearProgress(data),
      usage: (data) => this.jobs.get(data.job)?.hearUsage(data.usage),
      log: (data) => this.jobs.get(data.job ?? data.id)?.hearLog(),
      pool: (pool) => this.#hearPool(pool),
      admin: () => this.#fetchMe(),
      again: () => this.#missed(),
    };
    this.stream = followStream(this.open, on, (state, problem) => this.#connected(state, problem));
  }

  #connected(state, problem) {
    if (state === this.connection.state && problem?.code === this.connection.problem?.code) return;
    const since = state === this.connection.state ? this.connection.since : clockNow();
    this.connection = { state, problem, since };
    if (state === "live" && !this.wasLive) {
      this.wasLive = true;
      this.#fetchShown();
    }
    if (state !== "away" && this.me === null) this.#fetchMe();
    this.#tell();
  }

  /** When the pool was heard last, if it is away now. */
  get heardAt() {
    return this.connection.state === "away" && this.wasLive ? this.connection.since : null;
  }

  #hearProgress(data) {
    const id = data.job ?? data.id;
    this.jobs.get(id)?.hearProgress(data);
    for (const watched of this.#shown()) watched.trials?.hearProgress(id, data.progress);
  }

  /** A trial is in no list: it shows on the card of its sweep. */
  #hearJob(job) {
    const watched = this.jobs.get(job.id);
    if (watched) watched.hear(job);
    if (job.sweep) this.jobs.get(job.sweep)?.trials?.hear(job);
    if (job.sweep) return;
    if (this.me === null || (this.readingMine && job.user === this.me.name)) this.mineAgain = true;
    if (this.mine === null || job.user !== this.me?.name) return;
    this.mine = [job, ...this.mine.filter((each) => each.id !== job.id)];
    this.mine.sort((one, other) => other.submitted - one.submitted);
    this.#tellLists();
  }

  #hearPool(pool) {
    this.poolsHeard += 1;
    this.pool = pool;
    for (const watched of this.#shown()) watched.hearPool();
    this.#tell();
  }

  #missed() {
    this.epoch += 1;
    this.#fetchShown();
    this.#fetchPool();
  }

  #fetchShown() {
    for (const watched of this.#shown()) if (!watched.settled) watched.fetch();
    if (this.listViews.size > 0) this.#fetchMine();
  }

  /** Whether events are heard, or asked for in time. */
  get #hears() {
    return this.connection.state === "live" || this.connection.state === "asking";
  }

  async #fetchMe() {
    await this.#fetch("me", (me) => (this.me = me));
    if (this.mineAgain && this.mine !== null) this.#fetchMine();
  }

  /** A pool that an event tells meanwhile is newer. */
  #fetchPool() {
    const then = this.poolsHeard;
    return this.#fetch("pool", (pool) => then === this.poolsHeard && (this.pool = pool));
  }

  async #fetch(name, take) {
    if (this.asked.has(name)) return;
    this.asked.add(name);
    await this.call("GET", name).then(take, () => null);
    this.asked.delete(name);
    this.#tell();
  }

  /** Reads the caller's jobs, and once more if an event told of one of them meanwhile, which is newer. */
  async #fetchMine() {
    this.mineAgain = true;
    if (this.readingMine) return;
    this.readingMine = true;
    while (this.mineAgain) {
      this.mineAgain = false;
      await this.#readMine();
    }
    this.readingMine = false;
  }

  async #readMine() {
    try {
      this.mine = (await this.call("GET", MINE)).items;
      this.listProblem = null;
    } catch (error) {
      this.listProblem = error;
    }
    this.#tellLists();
  }

  #tell() {
    for (const watched of this.jobs.values()) watched.changed();
    for (const view of this.poolViews) view();
    this.#tellLists();
  }

  #tellLists() {
    for (const view of this.listViews) view();
  }
}
