/** The rows of a scrolling part that are below its lower edge, and the button that leads to them. */

import { button } from "../visuals/base/glyphs.js";
import { amount } from "../visuals/base/words.js";

const ROWS = "li, tbody > tr";
/** Pixels of a row that may be out of sight: its padding. */
const SLACK_PX = 6;

export class RowsBelow {
  /** @param changed called when the numbers have changed */
  constructor(changed) {
    this.changed = changed;
    this.below = new Map();
    this.watched = new Set();
    this.watcher = new ResizeObserver(() => this.count());
  }

  /** Returns whether a part goes on below its lower edge. */
  goesOn(name) {
    return this.below.has(name);
  }

  /** Draws the button of a part that goes on below its lower edge. */
  draw(name, title) {
    if (!this.goesOn(name)) return null;
    const rows = this.below.get(name);
    return button(`below-${name}`, rows ? `${amount(rows)} more` : "More", () => this.#scroll(name), {
      class: "st-button st-small st-home-below",
      "aria-label": `${title}: scroll to ${rows ? `${amount(rows)} more` : "the rest"}`,
    });
  }

  /** Counts again, after the page was drawn. */
  count() {
    const found = new Map();
    for (const part of document.querySelectorAll("[data-rows]")) {
      this.#watch(part);
      if (part.scrollHeight - part.clientHeight - part.scrollTop <= SLACK_PX) continue;
      const edge = part.getBoundingClientRect().bottom + SLACK_PX;
      const rows = [...part.querySelectorAll(ROWS)].filter((row) => row.getBoundingClientRect().bottom > edge);
      found.set(part.dataset.rows, rows.length);
    }
    if (isSame(found, this.below)) return;
    this.below = found;
    this.changed();
  }

  #watch(part) {
    if (this.watched.has(part)) return;
    this.watched.add(part);
    this.watcher.observe(part);
    part.addEventListener("scroll", () => this.count(), { passive: true });
  }

  #scroll(name) {
    const part = document.querySelector(`[data-rows="${name}"]`);
    part.focus({ preventScroll: true });
    part.scrollBy({ top: 0.8 * part.clientHeight });
  }
}

function isSame(one, other) {
  return one.size === other.size && [...one].every(([name, rows]) => other.get(name) === rows);
}
