/** A list of jobs of the API, read again when an event may have changed it. */

import { isFinal } from "../base/glyphs.js";
import { waits } from "../base/job_words.js";
import { calmly } from "../base/pace.js";

const READ_EVERY_S = 2;
const MOST_KEPT = 50;

export class JobList {
  /**
   * @param feed the `PoolFeed`
   * @param ask promises a page of jobs from the API, or null for none
   * @param belongs whether an unlisted job may belong to the list
   * @param dropped called with the id of each job that is deleted, also of an unlisted one
   */
  constructor(feed, ask, belongs, dropped = () => {}) {
    this.feed = feed;
    this.ask = ask;
    this.belongs = belongs;
    this.dropped = dropped;
    this.views = new Set();
    this.listed = null;
    this.next = null;
    this.reads = 0;
    this.isOther = false;
    this.readSoon = calmly(() => this.read(), READ_EVERY_S);
  }

  /** The jobs, or null before they were read. */
  get jobs() {
    return this.listed?.map(({ job }) => job) ?? null;
  }

  /** Whether the requested list was read. */
  get isRead() {
    return this.listed !== null && !this.isOther;
  }

  /** Reads the list. The latest jobs that have ended in the meantime stay, unless it is another list (`isOther`). */
  async read(isOther = false) {
    const turn = (this.reads += 1);
    const then = this.feed.events;
    if (isOther) this.isOther = true;
    const page = await this.ask();
    if (turn === this.reads && page !== null) this.#take(page, then);
    this.changed();
  }

  #take({ items, next = null }, then) {
    const kept = this.isOther ? [] : (this.listed ?? []).filter(({ job }) => isFinal(job.state));
    const listed = items.map((job) => this.feed.know(job, then));
    this.isOther = false;
    this.next = next;
    this.#list([...listed, ...kept.filter((live) => !listed.includes(live)).slice(0, MOST_KEPT)]);
  }

  #list(listed) {
    const before = this.listed ?? [];
    for (const live of before) live.lists.delete(this);
    for (const live of listed) live.lists.add(this);
    this.listed = listed;
    for (const live of before) this.feed.forgetUnshown(live);
  }

  /** Lists a new job first. */
  add(job) {
    this.#list([this.feed.know(job), ...(this.listed ?? [])]);
    this.readSoon();
    this.changed();
  }

  /** Takes out a job that was deleted. */
  drop(id) {
    this.dropped(id);
    if (!this.listed?.some((live) => live.job.id === id)) return;
    this.#list(this.listed.filter((live) => live.job.id !== id));
    this.readSoon();
    this.changed();
  }

  hear(job) {
    const isListed = this.listed?.some((live) => live.job.id === job.id);
    if (isListed ? waits(job) && !job.starts : this.belongs(job)) this.readSoon();
  }

  changed() {
    for (const view of this.views) view();
  }
}
