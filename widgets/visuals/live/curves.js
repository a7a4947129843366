/** Keeps the reports of the jobs on show, fetching only what is new and only when asked for. */

const POINTS_PIECE = 10_000;
const POINTS_EVERY_S = 1;

export class CurveKeeper {
  /**
   * @param call asks the API: `call(method, path)` promises the answer's body
   * @param changed called when points have come in
   */
  constructor(call, changed) {
    this.call = call;
    this.changed = changed;
    this.kept = new Map();
  }

  /** The points of a job, as far as they are here; fetches those of which its progress tells. */
  of(job) {
    if (!this.kept.has(job.id)) {
      this.kept.set(job.id, { points: [], next: 0, busy: false, last: -Infinity, stale: false, reported: null });
    }
    const kept = this.kept.get(job.id);
    if (kept.reported !== job.progress.at) {
      kept.reported = job.progress.at;
      this.#grown(job.id, kept);
    }
    return kept.points;
  }

  #grown(id, kept) {
    kept.stale = true;
    if (kept.busy) return;
    kept.busy = true;
    setTimeout(() => this.#fetch(id, kept), Math.max(0, kept.last + 1000 * POINTS_EVERY_S - performance.now()));
  }

  async #fetch(id, kept) {
    kept.stale = false;
    kept.last = performance.now();
    const page = await this.call(
      "GET",
      `jobs/${encodeURIComponent(id)}/points?after=${kept.next}&limit=${POINTS_PIECE}`,
    ).catch(() => null);
    kept.busy = false;
    if (page?.items.length) {
      kept.points = [...kept.points, ...page.items];
      kept.next = page.next;
      this.changed();
    }
    if (kept.stale || page?.items.length === POINTS_PIECE) this.#grown(id, kept);
  }
}
