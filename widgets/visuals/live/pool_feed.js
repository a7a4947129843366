/** The state of the pool on one page: one event stream for all views; only data that is not in events is fetched. */

import { isFinal } from "../base/glyphs.js";
import { clockNow } from "../base/words.js";
import { CurveKeeper } from "./curves.js";
import { JobList } from "./job_list.js";
import { LiveJob } from "./live_job.js";

const MINE = "jobs?mine=1&order=running&limit=50";

export class PoolFeed {
  /**
   * @param api `call(method, path, body)` promises the body of a response, `openFile(path)` the `Response` of a file; both
   *   throw errors with `status` and `message`. `follow(on, show)` follows the events, as `followEvents` does
   * @param links `pageOf(id)`: address of a job's own page, or null; `compareOf(ids)`: address of a comparison, left out if
   *   there is none; `boardOf(ids)`: address of their TensorBoard; `target`: where links open
   * @param viewer the viewer, if known: `name`, `admin`, `administers(project)`, names of own `projects`; else from the API
   */
  constructor({ call, openFile, follow }, links, viewer = null) {
    this.call = call;
    this.openFile = openFile;
    this.follow = follow;
    this.links = links;
    this.viewer = viewer;
    this.connection = { state: "connecting", problem: null, since: clockNow() };
    this.pool = null;
    this.me = null;
    this.jobs = new Map();
    this.events = 0;
    this.epoch = 0;
    this.poolsHeard = 0;
    this.pending = new Set();
    this.poolViews = new Set();
    this.noticeViews = new Set();
    this.lists = new Set();
    this.stream = null;
    this.isOpen = false;
    this.wasLive = false;
    this.curves = new CurveKeeper(call, () => this.#tell());
    this.listProblem = null;
    this.mine = new JobList(this, () => this.#askMine(), this.isOwn.bind(this));
  }

  async #askMine() {
    this.listProblem = null;
    return this.call("GET", MINE).catch((error) => {
      this.listProblem = error;
      return null;
    });
  }

  /** The `LiveJob` of an id. */
  live(id) {
    if (!this.jobs.has(id)) this.jobs.set(id, new LiveJob(this, id));
    return this.jobs.get(id);
  }

  /** Updates a job from an answer requested after `then` events; returns its `LiveJob`. */
  know(job, then = this.events) {
    const live = this.live(job.id);
    live.take(job, then);
    return live;
  }

  /** Forgets a job that is in no view and no list, with its curves and its log. */
  forgetUnshown(live) {
    if (live.views.size + live.lists.size > 0 || this.jobs.get(live.id) !== live) return;
    live.forgetTrials();
    this.jobs.delete(live.id);
    this.curves.forget(live.id);
  }

  /**
   * Shows a job by calling `view` after each change. Returns its `LiveJob` and `stop`.
   * @param known the caller's version of the job: used if the job has ended, or if `isWhole`: it is a fresh answer of the API
   * @param tail length of the displayed end of the log, in bytes
   */
  watchJob(id, view, { known = null, isWhole = false, tail = 0 } = {}) {
    const live = this.live(id);
    if (known !== null && live.job === null && (isWhole || isFinal(known.state))) live.take(known);
    if (isWhole) live.epoch = this.epoch;
    live.isWhole ||= isWhole;
    if (tail) live.followLog(tail);
    live.views.add(view);
    if (live.settled ? tail && live.epoch === null : this.isOpen && live.epoch !== this.epoch) live.fetch();
    this.looked();
    const stop = () => {
      this.#leave(live.views, view);
      if (live.views.size === 0) live.forgetTrials();
      this.forgetUnshown(live);
    };
    return { live, stop };
  }

  /** Shows the pool by calling `view` after each change. Returns `{ stop }`. */
  watchPool(view) {
    return this.#watch(this.poolViews, view);
  }

  /** Calls `view` with each notification of the viewer. Returns `{ stop }`. */
  watchNotices(view) {
    return this.#watch(this.noticeViews, view);
  }

  /** Shows a `JobList` by calling `view` after each change. Returns `{ stop }`. */
  watchList(list, view) {
    this.lists.add(list);
    if (this.isOpen) list.read();
    const { stop } = this.#watch(list.views, view);
    return {
      stop: () => {
        if (list.views.size === 1) this.lists.delete(list);
        stop();
      },
    };
  }

  /** The colour of a project, and whether GPUs are simulated; unknown until the pool was read. */
  about(project) {
    const entry = this.pool?.projects.find(({ name }) => name === project);
    return { colour: entry?.colour ?? null, simulated: this.pool?.simulated };
  }

  /** The colours of the known projects, by name. */
  get colours() {
    return new Map((this.pool?.projects ?? []).map(({ name, colour }) => [name, colour]));
  }

  /** Whether a job is the viewer's. Until the viewer is known, every job counts as theirs; the pool decides. */
  isOwn({ user }) {
    const person = this.viewer ?? this.me;
    return person === null || person.name === user;
  }

  /** Whether the viewer may act on a job. */
  mayAct(job) {
    const person = this.viewer ?? this.me;
    return this.isOwn(job) || person.admin || Boolean(person.administers?.(job.project));
  }

  /** Whether the viewer administers the project of a job, or the pool. */
  mayLead(job) {
    const person = this.viewer ?? this.me;
    return Boolean(person?.admin || person?.administers?.(job.project));
  }

  /** The names of the projects to which the viewer may move jobs: for an administrator of the pool all of them. */
  get projects() {
    const all = (this.pool?.projects ?? []).map(({ name }) => name);
    const person = this.viewer ?? this.me;
    if (person?.admin) return all;
    const own = new Set(this.viewer?.projects ?? this.me?.projects.map(({ name }) => name));
    return all.filter((name) => own.has(name) || person?.administers?.(name));
  }

  /** Opens the stream while the page shows anything that can change, and closes it otherwise. */
  looked() {
    const shown = this.#shown();
    const needed =
      this.poolViews.size + this.noticeViews.size + this.lists.size > 0 || shown.some((live) => !live.settled);
    if (needed && this.stream === null) this.#start();
    if (!needed && this.stream !== null) {
      this.stream.stop();
      this.stream = null;
      this.isOpen = false;
      this.wasLive = false;
      this.epoch += 1;
      this.connection = { state: "connecting", problem: null, since: clockNow() };
    }
    if (this.me === null) this.#fetchMe();
    if (!needed && this.pool === null && shown.length > 0) this.fetchPool();
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
    return [...this.jobs.values()].filter((live) => live.views.size > 0);
  }

  #start() {
    const on = {
      job: (job) => this.hearJob(job),
      progress: (data) => this.#hearPart("hearProgress", data),
      usage: (data) => this.#hearPart("hearUsage", data),
      log: (data) => this.jobs.get(data.job)?.readLog(),
      deleted: (data) => this.hearDeleted(data.job),
      pool: (pool) => this.#hearPool(pool),
      notification: (notice) => this.#hearNotice(notice),
      admin: () => this.#hearAdmin(),
      again: () => this.#missed(),
    };
    this.stream = this.follow(on, (contact, problem, isOpen) => this.#connected(contact, problem, isOpen));
  }

  /** Fetches the shown data when the stream opens first: changes of them follow. */
  #connected(state, problem, isOpen) {
    const opens = isOpen && !this.isOpen;
    this.isOpen = isOpen;
    if (opens && !this.wasLive) {
      this.wasLive = true;
      this.#fetchShown();
    }
    if (opens && this.me === null) this.#fetchMe();
    if (state === this.connection.state && problem?.code === this.connection.problem?.code) return;
    const since = state === this.connection.state ? this.connection.since : clockNow();
    this.connection = { state, problem, since };
    this.#tell();
  }

  /** The time of the last contact, if the pool is away now. */
  get heardAt() {
    return this.connection.state === "away" && this.wasLive ? this.connection.since : null;
  }

  /** A trial is in no list: the card of its sweep shows it. */
  hearJob(job) {
    this.events += 1;
    if (job.sweep) this.jobs.get(job.sweep)?.trials?.hear(job);
    this.jobs.get(job.id)?.hear(job);
    if (!job.sweep) for (const list of this.lists) list.hear(job);
  }

  /** A deleted job is in no list any more; a view of it says so. */
  hearDeleted(id) {
    this.events += 1;
    this.jobs.get(id)?.hearDeleted();
    for (const list of this.lists) list.drop(id);
  }

  #hearPart(name, data) {
    this.events += 1;
    this.jobs.get(data.job)?.[name](data);
    if (name === "hearProgress")
      for (const { trials } of this.jobs.values()) trials?.hearProgress(data.job, data.progress);
  }

  /** A pool whose count has started again was restarted, and events may have been lost. */
  #hearPool(pool) {
    const isNew = this.pool !== null && pool.seq < this.pool.seq;
    this.poolsHeard += 1;
    this.pool = pool;
    for (const live of this.#shown()) live.look();
    if (isNew) this.#missed();
    this.#tell();
  }

  #hearNotice(notice) {
    for (const view of this.noticeViews) view(notice);
  }

  #hearAdmin() {
    this.#fetchMe();
    this.fetchPool();
    for (const list of this.lists) list.read();
  }

  #missed() {
    this.epoch += 1;
    this.#fetchShown();
    this.fetchPool();
  }

  #fetchShown() {
    for (const live of this.#shown()) if (!live.settled) live.fetch();
    for (const { trials } of this.jobs.values()) trials?.read();
    for (const list of this.lists) list.read();
  }

  async #fetchMe() {
    if (this.viewer === null) await this.#fetch("me", (me) => (this.me = me));
  }

  /** Fetches the pool; one from an event in the meantime is newer. */
  fetchPool() {
    const then = this.poolsHeard;
    return this.#fetch("pool", (pool) => then === this.poolsHeard && (this.pool = pool));
  }

  async #fetch(name, take) {
    if (this.pending.has(name)) return;
    this.pending.add(name);
    await this.call("GET", name).then(take, () => null);
    this.pending.delete(name);
    this.#tell();
  }

  #tell() {
    for (const live of this.jobs.values()) for (const view of live.views) view();
    for (const view of this.poolViews) view();
    for (const list of this.lists) list.changed();
  }
}
