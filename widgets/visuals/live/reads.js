/** The reads of a page: whether the server has answered, and whether an answer is overdue. */

const LATE_MS = 6000;

export class Reads {
  constructor() {
    this.isAnswered = false;
    this.hasFailed = false;
    this.overdue = new Set();
    this.views = new Set();
  }

  /** Whether an answer is overdue. */
  get isLate() {
    return this.overdue.size > 0;
  }

  /** Returns the answer that `reading` promises, and takes note of it. */
  async noted(reading) {
    const late = setTimeout(() => this.#change(() => this.overdue.add(late)), LATE_MS);
    const ended = (hasFailed) =>
      this.#change(() => {
        this.overdue.delete(late);
        this.hasFailed = hasFailed;
        this.isAnswered ||= !hasFailed;
      });
    try {
      const answer = await reading;
      ended(false);
      return answer;
    } catch (error) {
      ended(true);
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  /** Calls `view` after each change. Returns a function that ends it. */
  watch(view) {
    this.views.add(view);
    return () => this.views.delete(view);
  }

  #change(change) {
    const before = [this.isAnswered, this.hasFailed, this.isLate];
    change();
    const now = [this.isAnswered, this.hasFailed, this.isLate];
    if (before.some((value, place) => value !== now[place])) for (const view of this.views) view();
  }
}
