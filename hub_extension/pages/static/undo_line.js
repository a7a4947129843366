/** What a viewer did last on a page, in a sentence, with the button that takes it back. */

import { attempted, call } from "./site.js";
import { h } from "./visuals/base/dom.js";
import { button } from "./visuals/base/glyphs.js";
import { clean } from "./visuals/base/words.js";

export class UndoLine {
  /**
   * @param name what the line is about, in the names that tests know
   * @param changed called when the line has to be drawn again
   * @param undone called after an undo, to read the present state
   */
  constructor(name, changed, undone = () => {}) {
    this.name = name;
    this.changed = changed;
    this.undone = undone;
    this.done = null;
    this.busy = false;
  }

  /**
   * Takes the change that was made: a sentence, and the number of its entry in the audit trail, null for none.
   * @param notes remarks about it
   * @param undone the sentence that stands there once it is taken back
   */
  take(words, entry, { notes = [], undone = `Undone: ${words}` } = {}) {
    this.done = entry === null ? null : { words, entry, notes, undone };
  }

  async #undo({ entry, undone }) {
    this.busy = true;
    this.changed();
    await attempted(async () => {
      await call("POST", `audit/${entry}/undo`);
      if (this.done?.entry === entry) this.done = { words: undone, entry: null, notes: [] };
    });
    this.busy = false;
    this.changed();
    await this.undone();
  }

  /** The line; null while nothing was done. */
  draw() {
    if (!this.done) return null;
    const { words, entry, notes } = this.done;
    return h(
      "div",
      { key: "done", class: "st-done", role: "status", "data-testid": `${this.name}-done` },
      h(
        "p",
        { key: "words" },
        `${words} `,
        entry !== null && button(`${this.name}-undo`, "Undo", () => this.#undo(this.done), { disabled: this.busy }),
      ),
      notes.map((note) => h("p", { key: note, class: "st-muted" }, clean(note))),
    );
  }
}
