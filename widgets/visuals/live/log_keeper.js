/** Keeps the end of a job's log, reading on when there is more. */

const TAIL = 256 * 1024;
const PIECE = 1024 * 1024;
const MOST = 8 * 1024 * 1024;

export class LogKeeper {
  /**
   * @param call asks the API: `call(method, path)` promises the answer's body
   * @param path of the job
   * @param changed called when the log has grown
   * @param tail so many bytes of the end are read first
   */
  constructor(call, path, changed, tail = TAIL) {
    this.call = call;
    this.tail = tail;
    this.path = path;
    this.changed = changed;
    this.rank = 0;
    this.actions = { rank: (rank) => this.#restart(rank, -this.tail), earlier: () => this.#restart(this.rank, 0) };
    this.#restart(0, -this.tail, false);
  }

  /** What a log view shows of it. */
  data(job) {
    return { text: this.text, ended: this.ended, cut: this.start > 0, rank: this.rank, ranks: job.options.workers };
  }

  /** There may be more to read. */
  async read() {
    this.more = true;
    if (this.busy) return;
    this.busy = true;
    while (this.more) {
      this.more = false;
      await this.#piece(this.turn);
    }
    this.busy = false;
  }

  async #piece(turn) {
    const query = new URLSearchParams({ offset: this.next, limit: PIECE, rank: this.rank });
    const chunk = await this.call("GET", `${this.path}/log?${query}`).catch(() => null);
    if (!chunk || turn !== this.turn) return;
    if (this.start === null) this.start = chunk.offset;
    this.text = `${this.text}${chunk.text}`.slice(-MOST);
    this.more ||= chunk.next > this.next && chunk.next - chunk.offset >= PIECE / 2;
    this.next = chunk.next;
    this.ended = chunk.ended;
    this.changed();
  }

  #restart(rank, next, now = true) {
    this.turn = (this.turn ?? 0) + 1;
    this.rank = rank;
    this.next = next;
    this.start = null;
    this.text = "";
    this.ended = false;
    if (now) this.read();
  }
}
