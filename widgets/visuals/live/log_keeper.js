/** Keeps the end of a job's log, and reads more when it has grown. */

import { oneByOne } from "../base/pace.js";

const PIECE = 1024 * 1024;
const MOST = 8 * 1024 * 1024;

export class LogKeeper {
  /**
   * @param call `call(method, path)` promises the body of the API's response
   * @param path of the job
   * @param changed called when the log has grown
   * @param tail length of the first piece, from the end, in bytes
   * @param mark `mark(attempt)` is the line before the log of an attempt
   */
  constructor(call, path, changed, tail, mark) {
    this.call = call;
    this.mark = mark;
    this.tail = tail;
    this.path = path;
    this.changed = changed;
    this.rank = 0;
    this.turn = 0;
    /** Reads on; called when the log may have grown. */
    this.read = oneByOne(() => this.#piece(), 0);
    this.actions = { rank: (rank) => this.#restart(rank, -this.tail), earlier: () => this.#restart(this.rank, 0) };
    this.#restart(0, -this.tail, false);
  }

  /** The data of a log view. */
  data(job) {
    return { text: this.text, ended: this.ended, cut: this.start > 0, rank: this.rank, ranks: job.options.workers };
  }

  async #piece() {
    const { turn } = this;
    const query = new URLSearchParams({ offset: this.next, limit: PIECE, rank: this.rank });
    const chunk = await this.call("GET", `${this.path}/log?${query}`).catch(() => null);
    if (!chunk || turn !== this.turn) return;
    if (this.start === null) this.start = chunk.offset;
    this.text = `${this.text}${this.#markOf(chunk)}${chunk.text}`.slice(-MOST);
    if (chunk.next > this.next && chunk.next - chunk.offset >= PIECE / 2) this.read();
    this.next = chunk.next;
    this.ended = chunk.ended;
    this.changed();
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
    this.ended = false;
    if (now) this.read();
  }
}
