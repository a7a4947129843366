/** Keeps the reports of the displayed jobs; fetches only new ones, and only on request. */

import { oneByOne } from "../base/pace.js";

const POINTS_PIECE = 10_000;
const POINTS_EVERY_S = 1;

export class CurveKeeper {
  /**
   * @param call `call(method, path)` promises the body of the API's response
   * @param changed called after new points
   */
  constructor(call, changed) {
    this.call = call;
    this.changed = changed;
    this.kept = new Map();
  }

  /** The points of a job read so far; fetches more after new progress. */
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

  forget(id) {
    this.kept.delete(id);
  }

  async #read(id) {
    const kept = this.kept.get(id);
    if (!kept) return;
    const path = `jobs/${encodeURIComponent(id)}/points?after=${kept.next}&limit=${POINTS_PIECE}`;
    const page = await this.call("GET", path).catch(() => null);
    if (!page?.items.length) return;
    kept.points = [...kept.points, ...page.items];
    kept.next = page.next;
    this.changed();
    if (page.items.length === POINTS_PIECE) kept.read();
  }
}
