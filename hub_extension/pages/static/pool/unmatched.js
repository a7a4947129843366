/** Holders that keep GPUs out of the pool until they end; for admins, with actions to end them or free their GPUs. */

import { attempted, call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button, when } from "../visuals/base/glyphs.js";
import { clean, count } from "../visuals/base/words.js";

/** Number of GPUs that the sentence before it names. */
const LISTED = 3;
const END = { job: "Have it leave", notebook: "Stop it", attempt: "End it" };
const ENDING = {
  job: "The job is asked to save and stop, and resumes on other GPUs.",
  notebook: "The notebook server is stopped; unsaved changes in it are lost.",
  attempt: "All its processes are ended.",
};

export class UnmatchedHolders {
  /**
   * @param admin whether the viewer may end them
   * @param changed called when the list has to be drawn again; changes of the pool arrive by its stream
   */
  constructor(admin, changed) {
    this.admin = admin;
    this.changed = changed;
    this.asking = null;
    this.busy = new Set();
  }

  /** The list of holders. */
  draw(holders, now) {
    return h(
      "ul",
      { key: "unmatched", class: "st-plain st-problem", role: "status", "data-testid": "unmatched" },
      holders.map((holder) =>
        h(
          "li",
          { key: holder.holder, "data-testid": "unmatched-holder" },
          this.#words(holder, now),
          this.admin && this.#actions(holder),
        ),
      ),
    );
  }

  #words({ gpus, since, why, change }, now) {
    const all = gpus.length > LISTED ? `: ${gpus.map(clean).join(", ")}` : "";
    const out = gpus.length > 0 && ` It keeps ${count(gpus.length, "GPU")} out of the pool until it has ended${all}.`;
    return [
      h("p", { key: "why", class: "mb-1" }, clean(why), out, " It started ", when(since, now), "."),
      h("p", { key: "change", class: "mb-1" }, clean(change)),
    ];
  }

  #actions(holder) {
    const asked = this.asking?.holder === holder.holder;
    return h(
      "div",
      { key: "actions" },
      asked
        ? this.#question(holder, this.asking.end)
        : [this.#button(holder, true, `${END[holder.kind]}…`), " ", this.#button(holder, false, "Its GPUs are free…")],
    );
  }

  #button(holder, end, words) {
    const ask = () => this.#ask({ holder: holder.holder, end });
    return button(end ? "unmatched-end" : "unmatched-free", words, ask, {
      disabled: this.busy.has(holder.holder),
      "aria-label": `${words} (${clean(holder.holder)})`,
    });
  }

  #question(holder, end) {
    const words = end
      ? ENDING[holder.kind]
      : "Say so only if nothing of it runs any more. It is refused while processes of it live.";
    return h(
      "div",
      { key: "question", class: "st-ask", "data-testid": "unmatched-question" },
      h("p", { key: "words", class: "mb-1", "aria-live": "polite" }, words),
      h("button", { key: "keep", type: "button", class: "st-button", on: { click: () => this.#ask(null) } }, "Not now"),
      " ",
      button("unmatched-confirm", end ? END[holder.kind] : "Its GPUs are free", () => this.#send(holder, end), {
        class: "st-button st-danger",
        disabled: this.busy.has(holder.holder),
      }),
    );
  }

  #ask(asking) {
    this.asking = asking;
    this.changed();
  }

  async #send({ holder }, end) {
    this.busy.add(holder);
    this.changed();
    await attempted(() => call("POST", "gpus/free", { holder, end }));
    this.busy.delete(holder);
    this.#ask(null);
  }
}
