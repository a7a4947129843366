/** What needs an administrator: each entry with what can be done about it, and those that are left for a time. */

import { call, site } from "../site.js";
import { UndoLine } from "../undo_line.js";
import { untilWords } from "../until.js";
import { h } from "../visuals/base/dom.js";
import { focusOnce } from "../visuals/base/focus.js";
import { button, emptyState, submitButton, when } from "../visuals/base/glyphs.js";
import { clean, count } from "../visuals/base/words.js";

const LEAVE_DAYS = 7;
const MOST_TEXT = 500;

export class NeedsList {
  /**
   * @param changed called when the list has to be drawn again
   * @param acted called after an action, which may have changed the pool
   */
  constructor(changed, acted) {
    this.changed = changed;
    this.acted = acted;
    this.list = null;
    this.asking = null;
    this.busy = new Set();
    this.refusals = new Map();
    this.showsLeft = false;
    this.done = new UndoLine("need", changed, () => this.#read());
  }

  /** Takes in what the pool says. */
  take(list) {
    this.list = list;
  }

  /** The number of entries. */
  get count() {
    return this.list?.items.length ?? 0;
  }

  draw(now) {
    if (!this.list) return h("p", { key: "loading", class: "st-muted" }, "Loading…");
    const { items, left } = this.list;
    return h(
      "div",
      { key: "needs", "data-testid": "needs" },
      this.done.draw(),
      items.length
        ? h(
            "ul",
            { key: "items", class: "st-home-list" },
            items.map((need) => this.#entry(need, now)),
          )
        : emptyState("Nothing needs you.", "Drains, quotas, leavers, backups and the like show here."),
      left.length > 0 && this.#left(left, now),
    );
  }

  #entry(need, now) {
    const refusal = this.refusals.get(need.id);
    const asked = need.actions.find(({ name }) => this.asking === `${need.id} ${name}`);
    return h(
      "li",
      { key: need.id, class: need.problem ? "st-need st-need-problem" : "st-need", "data-testid": `need-${need.kind}` },
      h(
        "p",
        { key: "said", class: "st-need-said" },
        need.problem && h("strong", { key: "problem", class: "st-problem" }, "Problem: "),
        clean(need.said),
        " ",
        h(
          "span",
          { key: "when", class: "st-muted" },
          "· ",
          need.until === null ? when(need.since, now) : untilWords(need.until, now),
        ),
      ),
      h("p", { key: "remedy", class: "st-need-remedy st-muted" }, withCode(need.remedy)),
      asked ? this.#question(need, asked) : this.#actions(need),
      refusal && h("p", { key: "refusal", class: "st-problem", role: "alert" }, clean(refusal)),
    );
  }

  #actions(need) {
    const disabled = this.busy.has(need.id);
    return h(
      "div",
      { key: "actions", class: "st-need-actions" },
      need.actions.map((action) =>
        action.page
          ? h(
              "a",
              { key: action.name, class: "st-button st-small", href: `${site.prefix}${action.page}` },
              clean(action.words),
            )
          : button(
              `need-${action.name}`,
              action.question ? `${clean(action.words)}…` : clean(action.words),
              () =>
                action.question ? this.#ask(`${need.id} ${action.name}`) : this.#carryOut(need, action.calls, action),
              { class: "st-button st-small", disabled, "aria-label": `${clean(action.words)}: ${clean(need.object)}` },
            ),
      ),
      button("need-leave", "Leave it", () => this.#send(need, "needs/leave", { id: need.id, days: LEAVE_DAYS }), {
        class: "st-button st-small st-quiet",
        disabled,
        title: "Hide it for a week",
        "aria-label": `Leave it for a week: ${clean(need.object)}`,
      }),
    );
  }

  #question(need, action) {
    const carryOut = (event) => {
      event.preventDefault();
      const why = new FormData(event.target).get("why");
      const calls =
        why === null ? action.calls : action.calls.map((each) => ({ ...each, body: { ...each.body, why } }));
      return this.#carryOut(need, calls, action);
    };
    const keydown = (event) => event.key === "Escape" && this.#ask(null);
    return h(
      "form",
      { key: "question", class: "st-ask", "data-testid": "need-question", on: { submit: carryOut, keydown } },
      h("p", { key: "words", class: "mb-1", "aria-live": "polite" }, clean(action.question)),
      action.text &&
        h(
          "label",
          { key: "text" },
          `${clean(action.text)} `,
          h("input", {
            class: "form-control form-control-sm",
            name: "why",
            required: true,
            hook: focusOnce,
            maxlength: MOST_TEXT,
            "data-testid": "need-text",
          }),
        ),
      h(
        "div",
        { key: "buttons" },
        button("need-not-now", "Not now", () => this.#ask(null), { class: "st-button st-small" }),
        " ",
        submitButton("need-confirm", clean(action.words), {
          class: `st-button ${action.grants ? "st-primary" : "st-danger"} st-small`,
          disabled: this.busy.has(need.id),
        }),
      ),
    );
  }

  #left(left, now) {
    const toggle = () => {
      this.showsLeft = !this.showsLeft;
      this.changed();
    };
    return h(
      "div",
      { key: "left", class: "st-home-left" },
      button("needs-left", `${count(left.length, "entry", "entries")} left for now`, toggle, {
        class: "st-button st-small st-quiet",
        "aria-expanded": String(this.showsLeft),
      }),
      this.showsLeft &&
        h(
          "ul",
          { key: "entries", class: "st-home-list" },
          left.map((need) =>
            h(
              "li",
              { key: need.id, class: "st-need", "data-testid": "need-left" },
              h("p", { key: "said", class: "st-need-said" }, clean(need.said)),
              h(
                "p",
                { key: "by", class: "st-need-remedy st-muted" },
                need.told
                  ? `${clean(need.user)} was notified by ${clean(need.told_by)}`
                  : `Left by ${clean(need.left_by)}`,
                ` ${untilWords(need.left_until, now)}.`,
              ),
              button("need-show", "Show it again", () => this.#send(need, "needs/show", { id: need.id }), {
                class: "st-button st-small",
                disabled: this.busy.has(need.id),
              }),
            ),
          ),
        ),
    );
  }

  #ask(key) {
    this.asking = key;
    this.changed();
  }

  #send(need, path, body) {
    return this.#carryOut(need, [{ method: "POST", path, body }]);
  }

  /** Makes the calls of an action in order, and reads the list again; a refusal is shown at the entry. */
  async #carryOut(need, calls, action = null) {
    this.busy.add(need.id);
    this.refusals.delete(need.id);
    this.changed();
    try {
      let answer = null;
      for (const { method, path, body } of calls) answer = await call(method, path, body ?? undefined);
      if (action) this.done.take(`${clean(action.words)}: ${clean(need.object)}.`, answer?.entry ?? null);
      this.asking = null;
    } catch (error) {
      this.refusals.set(need.id, error.message);
    }
    await this.#read();
    this.busy.delete(need.id);
    this.changed();
    this.acted();
  }

  async #read() {
    try {
      this.list = await call("GET", "needs");
      this.changed();
    } catch {
      this.acted();
    }
  }
}

/** A sentence of the service: what it has between backticks is code. */
function withCode(text) {
  return clean(text)
    .split("`")
    .map((part, place) => (place % 2 ? h("code", { key: `code ${place}` }, part) : part));
}
