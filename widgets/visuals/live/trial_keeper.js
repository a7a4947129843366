/** Keeps the trials of a sweep: read once, updated by events, and read again if events left anything out. */

import { agreesWith, reportedRow, rowOfTrial } from "../base/trials.js";

const TRIALS_PAGE = 1000;
const READ_EVERY_S = 2;
const TRIALS_READ_PER_S = 400;
const TRY_AGAIN_S = 5;
const GONE_FOR_GOOD = 404;

export class TrialKeeper {
  /**
   * @param call `call(method, path)` promises the body of the API's response
   * @param sweep its id
   * @param changed called when rows have changed
   */
  constructor(call, sweep, changed) {
    this.call = call;
    this.path = `jobs/${encodeURIComponent(sweep)}/trials`;
    this.changed = changed;
    this.kept = new Map();
    this.listed = null;
    this.isRead = false;
    this.counts = null;
    this.timer = null;
    this.reading = false;
    this.again = false;
    this.must = false;
    this.stopped = false;
    this.last = -Infinity;
    this.heard = new Map();
  }

  /** All rows by number, the same array until they change; null until they were read. */
  get rows() {
    if (!this.isRead) return null;
    this.listed ??= [...this.kept.values()].sort((one, other) => one.trial - other.trial);
    return this.listed;
  }

  /** Takes the counts of the sweep; reads the trials the first time, and later if they disagree with the counts. */
  follow(counts) {
    const before = this.counts;
    this.counts = counts;
    if (before === null) this.read();
    else if (JSON.stringify(before) !== JSON.stringify(counts)) this.#readSoon();
  }

  /** Updates a trial from an event. */
  hear(job) {
    this.#put(rowOfTrial(job, this.kept.get(job.trial), this.counts?.metric));
  }

  /** Updates a trial from its progress; ignores jobs that are not trials of this sweep. */
  hearProgress(id, progress) {
    const row = this.isRead && this.rows.find(({ job }) => job === id);
    if (row) this.#put(reportedRow(row, progress, this.counts?.metric));
  }

  /** Reads all trials. */
  async read() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.stopped) return;
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    this.again = false;
    this.heard.clear();
    this.last = performance.now();
    const found = await this.#pages().catch((error) => {
      if (error.status === GONE_FOR_GOOD) this.stop();
      return null;
    });
    this.reading = false;
    if (found !== null) {
      this.kept = new Map([...found, ...this.heard.values()].map((row) => [row.trial, row]));
      this.isRead = true;
      this.#tell();
    }
    if (found === null || this.again) this.#readSoon(found === null ? TRY_AGAIN_S : 0, true);
  }

  /** Stops reading. */
  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.stopped = true;
  }

  async #pages() {
    const rows = [];
    let cursor = null;
    do {
      const query = new URLSearchParams({ limit: TRIALS_PAGE, ...(cursor && { cursor }) });
      const page = await this.call("GET", `${this.path}?${query}`);
      rows.push(...page.items);
      cursor = page.next;
    } while (cursor);
    return rows;
  }

  /** Delays the read: events of trials usually arrive with those of their sweep, which makes it unnecessary. */
  #readSoon(least = 0, must = false) {
    this.must ||= must;
    if (this.timer !== null || this.stopped) return;
    const pace = READ_EVERY_S + (this.counts?.number ?? 0) / TRIALS_READ_PER_S;
    const wait = Math.max(least, this.last / 1000 + pace - performance.now() / 1000, READ_EVERY_S / 2);
    this.timer = setTimeout(() => {
      this.timer = null;
      const needed = this.must || !this.isRead || !agreesWith(this.rows, this.counts);
      this.must = false;
      if (needed) this.read();
    }, 1000 * wait);
  }

  #put(row) {
    if (this.reading) this.heard.set(row.trial, row);
    this.kept.set(row.trial, row);
    this.#tell();
  }

  #tell() {
    this.listed = null;
    this.changed();
  }
}
