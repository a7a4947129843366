/** Copies of rules: a project gets those of another one, once the viewer has seen what that changes. */

import { call, site } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button } from "../visuals/base/glyphs.js";
import { clean, count } from "../visuals/base/words.js";
import { refusalWords } from "./refusals.js";

const STAYS =
  "Limit, weight, priority, ranges, rule for idle workspaces and presets are copied; quotas and members stay.";

export class RuleCopies {
  /** @param changed called when there is something new to draw */
  constructor(changed) {
    this.changed = changed;
    this.#close();
  }

  #close() {
    Object.assign(this, { target: null, source: "", found: null, refusal: null, busy: false });
  }

  /** The button that opens the form of a project; null for who may not copy, and where there is nothing to copy from. */
  button({ name }, projects) {
    if (!site.admin || projects.length < 2) return null;
    const open = () => {
      this.#close();
      this.target = name;
      this.changed();
    };
    return button(`copy-rules-${name}`, "Copy rules from…", open, {
      disabled: this.busy,
      "aria-label": `Copy rules of another project to ${clean(name)}`,
    });
  }

  /** The form of a project: whose rules, and what they change; null while it is closed. */
  draw({ name }, projects, editing) {
    if (this.target !== name) return null;
    const others = projects.filter((other) => other.name !== name);
    const choose = (event) => this.#choose(event.target.value);
    return h(
      "div",
      { key: "copying", class: "st-ask", "data-testid": `copying-${name}` },
      h("p", { key: "words", class: "st-muted mb-1" }, STAYS),
      h(
        "label",
        { key: "source" },
        `Rules of ${clean(name)} become those of `,
        h(
          "select",
          {
            class: "form-select form-select-sm w-auto d-inline-block",
            "data-testid": "copy-source",
            disabled: this.busy,
            hook: (node) => {
              node.value = this.source;
            },
            on: { change: choose },
          },
          h("option", { key: "none", value: "" }, "choose one"),
          others.map((other) => h("option", { key: `is ${other.name}`, value: other.name }, clean(other.name))),
        ),
      ),
      this.#difference(),
      this.refusal && refusalWords(this.refusal, "copy-refusal"),
      h(
        "div",
        { key: "buttons", class: "st-row-actions" },
        button("copy-close", "Not now", () => {
          this.#close();
          this.changed();
        }),
        this.found?.changes.length > 0 &&
          button("copy-confirm", `Apply ${count(this.found.changes.length, "change")}`, () => this.#apply(editing), {
            class: "st-button st-primary",
            disabled: this.busy,
          }),
      ),
    );
  }

  #difference() {
    const { found, target, source } = this;
    if (found === null) return null;
    if (found.problems.length)
      return h(
        "ul",
        { key: "problems", class: "st-plain st-problem", "data-testid": "copy-problems" },
        found.problems.map(({ field, message, hint }) =>
          h("li", { key: field + message }, clean([message, hint].filter(Boolean).join(" "))),
        ),
      );
    if (!found.changes.length)
      return h(
        "p",
        { key: "same", class: "mb-1", "data-testid": "copy-same" },
        `${clean(target)} has the rules of ${clean(source)} already.`,
      );
    return h(
      "ul",
      { key: "changes", class: "st-plain", "data-testid": "copy-changes" },
      found.changes.map(({ text }) => h("li", { key: text }, clean(text))),
    );
  }

  #ask(more) {
    const path = `projects/${encodeURIComponent(this.target)}/rules`;
    return call("POST", path, { source: this.source, ...more });
  }

  async #choose(source) {
    Object.assign(this, { source, found: null, refusal: null });
    this.changed();
    if (!source) return;
    try {
      const found = await this.#ask({ dry_run: true });
      if (source === this.source) this.found = found;
    } catch (error) {
      if (source === this.source) this.refusal = error;
    }
    this.changed();
  }

  async #apply(editing) {
    const { version } = this.found;
    Object.assign(this, { busy: true, refusal: null });
    this.changed();
    let refusal = null;
    await editing.change("copy", this.target, async () => {
      try {
        await this.#ask({ version });
      } catch (error) {
        refusal = error;
      }
    });
    if (refusal === null) this.#close();
    else Object.assign(this, { busy: false, found: null, source: "", refusal });
    this.changed();
  }
}
