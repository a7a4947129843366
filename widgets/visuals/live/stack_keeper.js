/** Where a running job is now: its stacks, fetched on request and shown until they are closed. */

import { h } from "../base/dom.js";
import { cleanLines, clock, clockNow } from "../base/words.js";

export class StackKeeper {
  /** @param changed called when the stacks have to be drawn again */
  constructor(call, path, changed) {
    this.call = call;
    this.path = path;
    this.changed = changed;
    this.found = null;
    this.asking = false;
  }

  /** Fetches the stacks of all workers. Throws `Refused`. */
  async ask() {
    this.asking = true;
    this.changed();
    try {
      this.found = await this.call("POST", `${this.path}/stack`);
    } finally {
      this.asking = false;
      this.changed();
    }
  }

  /** Whether it shows stacks, or that they are fetched. */
  get isOpen() {
    return this.asking || this.found !== null;
  }

  close() {
    this.found = null;
    this.changed();
  }

  /** The stacks as a description; null if there are none to show. */
  draw() {
    if (this.asking) return h("p", { key: "stack", class: "st-muted", role: "status" }, "Asking the job where it is…");
    if (this.found === null) return null;
    const { at, workers, more } = this.found;
    const close = {
      type: "button",
      class: "st-button",
      "data-testid": "stack-close",
      on: { click: () => this.close() },
    };
    return h(
      "section",
      { key: "stack", class: "st-log-fold", "data-testid": "stack" },
      h(
        "div",
        { key: "at", class: "st-stack-head" },
        h("span", { key: "words" }, `Where it was at ${clock(at, clockNow(), true)}`),
        h("button", { key: "close", ...close }, "Close"),
      ),
      workers.map(({ rank, text, problem }) => [
        workers.length > 1 && h("p", { key: `rank-${rank}`, class: "st-muted" }, `Worker ${rank}`),
        h(
          "pre",
          { key: `text-${rank}`, class: "st-log", tabindex: 0, "aria-label": `Stack of worker ${rank}` },
          [text, problem].filter(Boolean).map(cleanLines).join("\n\n"),
        ),
      ]),
      more > 0 && h("p", { key: "more", class: "st-muted" }, `${more} more workers are not shown.`),
    );
  }
}
