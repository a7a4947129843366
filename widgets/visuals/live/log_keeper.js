/** Keeps the end of a job's log, and reads more when it has grown. */

import { oneByOne } from "../base/pace.js";

const PIECE = 1024 * 1024;
const MOST = 8 * 1024 * 1024;
const READ_AGAIN_MS = 3000;
export const READING = "Reading the log…";
const REFUSED_FOR_GOOD = new Set([403, 404]);

export class LogKeeper {
  /**
   * @param call `call(method, path)` promises the body of the API's response
   * @param path of the job
   * @param changed called when the log has grown
   * @param tail length of the first piece, from the end, in bytes
   * @param mark `mark(attempt)` is the line before the log of an attempt
   * @param isShown whether any view shows the job; a failed read is repeated only then
   */
  constructor(call, path, changed, tail, mark, isShown) {
    this.call = call;
    this.mark = mark;
    this.tail = tail;
    this.path = path;
    this.changed = changed;
    this.isShown = isShown;
    this.rank = 0;
    this.turn = 0;
    /** Reads on; called when the log may have grown. */
    this.read = oneByOne(() => this.#piece(), 0);
    this.actions = { rank: (rank) => this.#restart(rank, -this.tail), earlier: () => this.#restart(this.rank, 0) };
    this.#restart(0, -this.tail, false);
  }

  /** Why there is no text yet, in words; null once the log was read. */
  get reading() {
    if (this.isRead) return null;
    return this.problem === null ? READING : `The log cannot be read now: ${this.problem}`;
  }

  /** The data of a log view. */
  data(job) {
    const { text, reading, ended, rank } = this;
    return { text, reading, ended, cut: this.start > 0, rank, ranks: job.options.workers };
  }

  async #piece() {
    const { turn } = this;
    const query = new URLSearchParams({ offset: this.next, limit: PIECE, rank: this.rank });
    const chunk = await this.call("GET", `${this.path}/log?${query}`).catch((error) => this.#failed(error, turn));
    if (!chunk || turn !== this.turn) return;
    this.problem = null;
    this.isRead = true;
    if (this.start === null) this.start = chunk.offset;
    this.text = `${this.text}${this.#markOf(chunk)}${chunk.text}`.slice(-MOST);
    if (chunk.text && chunk.next < chunk.size) this.read();
    this.next = chunk.next;
    this.ended = chunk.ended;
    this.changed();
  }

  #failed(error, turn) {
    if (turn !== this.turn) return null;
    this.problem = error.message;
    if (!REFUSED_FOR_GOOD.has(error.status))
      setTimeout(() => turn === this.turn && this.isShown() && this.read(), READ_AGAIN_MS);
    this.changed();
    return null;
  }

  /** The line before a piece of a log with which another attempt begins. */
  #markOf({ text, offset, attempt }) {
    if (!text) return "";
    const before = this.attempt ?? (offset > 0 ? attempt : 1);
    this.attempt = attempt;
    if (attempt === before) return "";
    return `${this.text && !this.text.endsWith("\n") ? "\n" : ""}${this.mark(attempt)}\n`;
  }

  #restart(rank, next, now = true) {
    this.turn += 1;
    this.rank = rank;
    this.next = next;
    this.start = null;
    this.attempt = null;
    this.text = "";
    this.isRead = false;
    this.problem = null;
    this.ended = false;
    if (now) this.read();
  }
}
