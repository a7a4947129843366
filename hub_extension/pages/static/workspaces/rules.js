/** Rules for workspaces that do not use their GPUs, for admins: of the pool, and exceptions for projects and people. */

import { attempted, call } from "../site.js";
import { untilField, untilOf, untilWords } from "../until.js";
import { h } from "../visuals/base/dom.js";
import { submitButton } from "../visuals/base/glyphs.js";
import { clean, clockNow, duration } from "../visuals/base/words.js";

const MINUTE = 60;

export class IdleRules {
  /** @param changed called when the rules have to be drawn again */
  constructor(changed) {
    this.changed = changed;
    this.rules = null;
    this.busy = false;
  }

  async read() {
    this.rules = (await attempted(() => call("GET", "idle-rules"))) ?? this.rules;
    this.changed();
  }

  draw() {
    if (!this.rules) return null;
    const { pool, exceptions, stops } = this.rules;
    return h(
      "section",
      { key: "rules", "data-testid": "idle-rules" },
      h("h2", { key: "head", class: "h5 mt-4" }, "Workspaces that do not use their GPUs"),
      h(
        "p",
        { key: "rule", "data-testid": "idle-rule" },
        `${inWords(pool, "For everybody: ")}${endWords(this.rules.until)} Kernels that compute, programs in terminals, open pages and measured use of the GPUs count as use.`,
      ),
      !stops &&
        h(
          "p",
          { key: "only", class: "st-muted", "data-testid": "idle-only-told" },
          "On this hub no workspace is stopped: the setting stop_idle_workspaces of the hub allows it.",
        ),
      this.#form("pool", pool),
      exceptions.length > 0 && this.#exceptions(exceptions),
      this.#form("new", null),
    );
  }

  #exceptions(exceptions) {
    return h(
      "ul",
      { key: "exceptions", class: "list-unstyled", "data-testid": "idle-exceptions" },
      exceptions.map(({ scope, name, rule, configured, until }) =>
        h(
          "li",
          { key: `${scope} ${name}`, class: "mb-1" },
          `${inWords(rule, `${scope === "project" ? "Project" : "User"} ${clean(name)}: `)}${endWords(until)} `,
          configured
            ? h("span", { key: "by", class: "st-muted" }, "Set in the hub's configuration.")
            : h(
                "button",
                {
                  key: "remove",
                  type: "button",
                  class: "st-button",
                  disabled: this.busy,
                  "aria-label": `Remove the exception for ${clean(name)}`,
                  on: { click: () => this.#send({ scope, name, rule: null }) },
                },
                "Remove",
              ),
        ),
      ),
    );
  }

  /** The form of the pool's rule, or of a new exception. */
  #form(key, rule) {
    const submit = async (event) => {
      event.preventDefault();
      const form = event.target;
      const data = new FormData(form);
      const whose = key === "pool" ? {} : { scope: data.get("scope"), name: data.get("name").trim() };
      const sent = await this.#send({
        ...whose,
        until: untilOf(form),
        rule: { tell_after: seconds(data.get("tell")), notice: seconds(data.get("notice")) },
      });
      if (sent && key === "new") form.reset();
    };
    const whose = key === "new" && [
      h(
        "select",
        {
          key: "scope",
          class: "form-select form-select-sm w-auto",
          name: "scope",
          "aria-label": "Whom the exception is for",
          "data-testid": "idle-scope",
        },
        h("option", { value: "project" }, "project"),
        h("option", { value: "person" }, "user"),
      ),
      h("input", {
        key: "name",
        class: "form-control form-control-sm w-auto",
        name: "name",
        required: true,
        maxlength: 255,
        placeholder: "name",
        "aria-label": "Name of the project or user",
        "data-testid": "idle-name",
      }),
    ];
    return h(
      "form",
      { key: `form ${key}`, class: "st-filters", "data-testid": `idle-form-${key}`, on: { submit } },
      h("span", { key: "label" }, key === "pool" ? "Everybody:" : "Exception for"),
      whose,
      this.#minutes("tell", "notify the owner after", rule?.tell_after, "minutes without use,"),
      this.#minutes("notice", "stop it", rule?.notice, "minutes later"),
      untilField(`idle-until-${key}`, "until"),
      submitButton(`idle-save-${key}`, key === "pool" ? "Save" : "Add", { class: "st-button", disabled: this.busy }),
    );
  }

  #minutes(name, before, value, after) {
    const props = {
      class: "form-control form-control-sm d-inline-block st-minutes",
      type: "number",
      min: 1,
      max: 366 * 24 * 60,
      step: "any",
      name,
      value: value ? String(value / MINUTE) : "",
      placeholder: "never",
      "data-testid": `idle-${name}`,
    };
    return h("label", { key: name }, `${before} `, h("input", props), ` ${after}`);
  }

  async #send(edit) {
    this.busy = true;
    this.changed();
    const rules = await attempted(() => call("PATCH", "idle-rules", edit));
    this.busy = false;
    if (rules) this.rules = rules;
    this.changed();
    return Boolean(rules);
  }
}

/** A rule as a sentence. */
function inWords({ tell_after: tell, notice }, whose) {
  if (!tell) return `${whose}no notification, and nothing is stopped.`;
  const words = `${whose}the owner is notified after ${duration(tell)} without use`;
  return notice ? `${words}, and the workspace is stopped ${duration(notice)} later.` : `${words}; nothing is stopped.`;
}

/** When a rule ends by itself, as a sentence; empty if it does not. */
function endWords(until) {
  return until === null ? "" : ` This holds ${untilWords(until, clockNow())}.`;
}

function seconds(text) {
  return text.trim() === "" ? null : Number(text) * MINUTE;
}
