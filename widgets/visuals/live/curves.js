/** Keeps the reports of the jobs on show, fetching only what is new and only when asked for. */

import { oneByOne } from "../base/pace.js";

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

  /** The points of a job, as far as they are here; fetches those that its progress says there are. */
  of(job) {
    if (!this.kept.has(job.id)) {
      const kept = { points: [], next: 0, reported: null };
      this.kept.set(job.id, { ...kept, read: oneByOne(() => this.#read(job.id), POINTS_EVERY_S) });
    }
    const kept = this.kept.get(job.id);
    if (kept.reported !== job.progress.at) {
      kept.reported = job.progress.at;
      kept.read();
    }
    return kept.points;
  }

  async #read(id) {
    const kept = this.kept.get(id);
    const path = `jobs/${encodeURIComponent(id)}/points?after=${kept.next}&limit=${POINTS_PIECE}`;
    const page = await this.call("GET", path).catch(() => null);
    if (!page?.items.length) return;
    kept.points = [...kept.points, ...page.items];
    kept.next = page.next;
    this.changed();
    if (page.items.length === POINTS_PIECE) kept.read();
  }
}
