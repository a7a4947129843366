/** Keeps the reports of the jobs on show, fetching only what is new and only when asked for. */

import { call } from "../site.js";

const PIECE = 10_000;
const EVERY_S = 1;

export class CurveKeeper {
  /** @param changed called when points have come in */
  constructor(changed) {
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
    setTimeout(() => this.#fetch(id, kept), Math.max(0, kept.last + 1000 * EVERY_S - performance.now()));
  }

  async #fetch(id, kept) {
    kept.stale = false;
    kept.last = performance.now();
    const page = await call("GET", `jobs/${encodeURIComponent(id)}/points?after=${kept.next}&limit=${PIECE}`).catch(() => null);
    kept.busy = false;
    if (page?.items.length) {
      kept.points = [...kept.points, ...page.items];
      kept.next = page.next;
      this.changed();
    }
    if (kept.stale || page?.items.length === PIECE) this.#grown(id, kept);
  }
}
