/** The viewer's own requests, with the outcome of each, and the form of a new one. */

import { attempted, call, site } from "../site.js";
import { untilWords } from "../until.js";
import { h } from "../visuals/base/dom.js";
import { button, when } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";
import { RequestForm } from "./request_form.js";

const MOST_ENDED = 5;
const POOL = "springtide";

export class OwnRequests {
  /** @param changed called when there is something new to draw */
  constructor(changed) {
    this.changed = changed;
    this.items = [];
    this.busy = new Set();
    this.form = new RequestForm(changed, () => this.read());
  }

  async read() {
    const found = await attempted(() => call("GET", "requests"));
    if (found) {
      const mine = found.items.filter(({ user }) => user === site.user);
      const ended = mine.filter(({ state }) => state !== "pending").slice(0, MOST_ENDED);
      this.items = [...mine.filter(({ state }) => state === "pending"), ...ended];
    }
    this.changed();
  }

  /** The form and the list; `now`: seconds since the epoch. */
  draw(pool, mine, queue, now) {
    return [this.form.draw(pool, mine, queue), this.#list(this.items, now)];
  }

  /**
   * The request for the quota that a job lacks, and the outcome of those for its project since it was submitted;
   * nothing while there is neither. The form is offered until one is pending.
   * @param wish as `wishOf` has it, or null
   */
  drawWish(pool, { project, submitted }, wish, now) {
    const isAbout = ({ wanted }) => wanted.kind === "project" && wanted.project === project;
    const items = this.items.filter(
      (request) => isAbout(request) && (request.state === "pending" || request.at >= submitted),
    );
    const pending = items.some(({ state }) => state === "pending");
    const form = pool && !pending && (wish || this.form.kind !== null) && this.form.draw(pool, [project], [], wish);
    return form || pending || (wish && items.length) ? [form, this.#list(items, now)] : null;
  }

  #list(items, now) {
    return (
      items.length > 0 &&
      h(
        "ul",
        { key: "requests", class: "st-requests", "data-testid": "requests" },
        items.map((request) => this.#entry(request, now)),
      )
    );
  }

  #entry(request, now) {
    const { number, state, what, why, obstacle } = request;
    const pending = state === "pending";
    return h(
      "li",
      { key: String(number), class: `st-request st-request-${state}`, "data-testid": "request" },
      h(
        "p",
        { key: "what" },
        h("strong", { key: "state" }, STATES[state] ?? clean(state)),
        ` ${clean(what)} `,
        h("span", { key: "when", class: "st-muted" }, when(request.decided ?? request.at, now)),
      ),
      h("p", { key: "why", class: "st-muted" }, `Your reason: ${clean(why)}`),
      h("p", { key: "state-words", class: "st-muted" }, stateWords(request, now)),
      pending && obstacle && h("p", { key: "obstacle", class: "st-muted" }, `It does not fit now: ${clean(obstacle)}`),
      pending &&
        button("request-withdraw", "Withdraw", () => this.#withdraw(number), {
          class: "st-button st-small",
          disabled: this.busy.has(number),
          "aria-label": `Withdraw the request for ${clean(what)}`,
        }),
    );
  }

  async #withdraw(number) {
    this.busy.add(number);
    this.changed();
    await attempted(() => call("DELETE", `requests/${number}`));
    await this.read();
    this.busy.delete(number);
    this.changed();
  }
}

const STATES = {
  pending: "Asked for",
  approved: "Approved:",
  refused: "Refused:",
  withdrawn: "Withdrawn:",
  expired: "Expired:",
  obsolete: "Ended:",
};

function stateWords({ state, expires, by, answer, given }, now) {
  if (state === "pending") return `It waits for a decision, ${untilWords(expires, now)} at most.`;
  if (state === "withdrawn") return "You have withdrawn it.";
  const who = by === POOL ? "" : `By ${clean(by)}. `;
  return `${who}${given ? `Granted: ${clean(given)}. ` : ""}${clean(answer)}`;
}
