/** Whether typed changes would be refused, asked during typing. Asking changes nothing. */

import { call } from "../site.js";

const SETTLED_MS = 400;
const AGAIN_MS = 5_000;

/** Keeps the answer to the latest request of each row. `redraw` is called when one arrives. */
export class Previews {
  constructor(redraw) {
    this.redraw = redraw;
    this.rows = new Map();
  }

  /**
   * Takes the present requests by the keys of their rows: `{ path, body }`, or `{ problem }`, the error of a text that is no
   * value. Answers to other requests are forgotten.
   */
  consider(requests) {
    for (const [key, row] of this.rows) {
      if (requests.get(key)?.text === row.text) continue;
      clearTimeout(row.timer);
      this.rows.delete(key);
    }
    for (const [key, request] of requests) {
      if (this.rows.has(key)) continue;
      const row = { ...request, refused: null };
      this.rows.set(key, row);
      this.#after(SETTLED_MS, key, row);
    }
  }

  /** Why the change of a row would be refused; null if it would not, and while that is not known. */
  refused(key) {
    return this.rows.get(key)?.refused ?? null;
  }

  /** The pool may take what it would have refused, and the other way round, once others have changed it. */
  #after(milliseconds, key, row) {
    row.timer = setTimeout(() => this.#ask(key, row), milliseconds);
  }

  async #ask(key, row) {
    const before = row.refused;
    try {
      row.refused = row.problem ?? (await call("POST", row.path, row.body)).refused;
    } catch {
      row.refused = null;
    }
    if (this.rows.get(key) !== row) return;
    if (row.refused?.message !== before?.message) this.redraw();
    if (!row.problem) this.#after(AGAIN_MS, key, row);
  }
}

/** The request of a row, made by `make`, which throws for a text that is no value. */
export function requestOf(make) {
  try {
    const request = make();
    return { ...request, text: JSON.stringify(request) };
  } catch (problem) {
    return { problem, text: problem.message };
  }
}
