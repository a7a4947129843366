/** Rules that make projects of an identity provider's groups: what they do, and what others would do. */

import { call } from "../site.js";
import { dataCells, dataTable } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { button, emptyState, submitButton } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";
import { refusalWords } from "./refusals.js";

const HEADS = ["group", "people", "project", "role", "joins at the next log-in", ""];
const BLANK = { kind: "group", name: "", project: "", role: "member", departments: false };
const WHERE =
  "Rules are part of the hub's configuration: change c.Springtide.group_rules, or service.settings.group_rules of " +
  "the chart, and restart the hub.";

/** The rules of the configuration, or those that the viewer tries; nothing that is tried here changes anything. */
export class GroupRules {
  /** @param changed called when there is something new to draw */
  constructor(changed) {
    this.changed = changed;
    this.view = null;
    this.tried = null;
    this.typed = BLANK;
    this.refusal = null;
    this.asked = 0;
  }

  async read() {
    const asked = this.asked;
    let view = null;
    let refusal = null;
    try {
      view = await (this.tried
        ? call("POST", "group-rules/preview", { rules: this.tried })
        : call("GET", "group-rules"));
    } catch (error) {
      refusal = error;
    }
    if (asked !== this.asked) return;
    this.view = view ?? this.view;
    this.refusal = refusal;
    this.changed();
  }

  /** The section; nothing on a hub without groups of a provider. */
  draw() {
    const { view } = this;
    if (!view || !(view.managed || view.rules.length)) return null;
    return h(
      "section",
      { key: "group-rules", class: "st-section", "data-testid": "group-rules" },
      h("h2", {}, "Groups of the identity provider"),
      h(
        "p",
        { key: "where", class: "st-muted" },
        this.tried ? "You try other rules: nothing has changed. " : "",
        WHERE,
      ),
      !view.rules.length &&
        emptyState("There are no rules.", "A group of the provider is the project of the same name."),
      view.rules.map((each, at) => this.#rule(each, at)),
      this.#losses(),
      this.#missing(),
      this.#form(),
      this.tried && this.#lines(),
    );
  }

  #rule({ rule, text, effects }, at) {
    return h(
      "div",
      { key: `rule ${at}`, class: "st-group-rule", "data-testid": `group-rule-${at}` },
      h(
        "p",
        { key: "text", class: "mb-1" },
        clean(text),
        " ",
        this.tried &&
          button(`group-rule-remove-${at}`, "×", () => this.#try(this.tried.filter((_, other) => other !== at)), {
            "aria-label": `Try without this rule: ${clean(text)}`,
            title: "Try without this rule",
          }),
      ),
      effects.length
        ? dataTable(
            `group-effects-${at}`,
            HEADS,
            effects.map((effect) => drawEffect(effect, rule.role ?? BLANK.role)),
          )
        : h(
            "p",
            { key: "none", class: "st-muted" },
            "The hub knows no such group yet: it learns them as people log in.",
          ),
    );
  }

  #losses() {
    const losses = Object.entries(this.view.loses);
    return (
      losses.length > 0 &&
      h(
        "ul",
        { key: "losses", class: "st-plain", "data-testid": "group-losses" },
        losses.map(([project, people]) =>
          h("li", { key: project }, `At the next log-in ${clean(project)} loses ${people.map(clean).join(", ")}.`),
        ),
      )
    );
  }

  #missing() {
    const names = Object.keys(this.view.missing.projects ?? {});
    return (
      names.length > 0 &&
      h(
        "p",
        { key: "missing", "data-testid": "group-missing" },
        `The pool lacks ${names.map(clean).join(", ")}. `,
        h("code", {}, "springtide groups --missing"),
        " writes them as a file for ",
        h("code", {}, "springtide apply"),
        ".",
      )
    );
  }

  #form() {
    const { typed } = this;
    const set = (field, value) => {
      this.typed = { ...this.typed, [field]: value };
      this.changed();
    };
    const text = (field, label, placeholder) =>
      h("input", {
        key: field,
        type: "text",
        value: typed[field],
        placeholder,
        autocomplete: "off",
        "aria-label": label,
        "data-testid": `group-rule-${field}`,
        on: { input: (event) => set(field, event.target.value) },
      });
    const submit = (event) => {
      event.preventDefault();
      if (typed.name.trim()) this.#try([...this.#present(), ruleOf(typed)], true);
    };
    return h(
      "form",
      { key: "form", class: "st-group-form", on: { submit } },
      choice("kind", "What the rule is for", typed.kind, KINDS, set),
      text("name", typed.kind === "group" ? "Name of the group" : "Beginning of the groups' names", "group"),
      text("project", "Project", typed.kind === "group" ? "project" : "project; empty: the rest"),
      typed.kind === "group" && choice("role", "Role", typed.role, ROLES, set),
      typed.kind === "prefix" &&
        h(
          "label",
          { key: "departments" },
          h("input", {
            type: "checkbox",
            checked: typed.departments,
            "data-testid": "group-rule-departments",
            on: { change: (event) => set("departments", event.target.checked) },
          }),
          " “/” makes departments",
        ),
      submitButton("group-rule-try", "Try this rule", { class: "st-button", disabled: !typed.name.trim() }),
      !this.tried &&
        this.view.rules.length > 0 &&
        button("group-rules-edit", "Try without some", () => this.#try(this.#present())),
      this.tried && button("group-rules-back", "Back to the present rules", () => this.#try(null)),
      this.refusal && refusalWords(this.refusal, "group-rules-refusal"),
    );
  }

  #lines() {
    const line = (name, title, words) => [
      h("p", { key: `${name} title`, class: "st-muted mb-1" }, title),
      h(
        "pre",
        { key: name, class: "st-group-lines", tabindex: "0", "data-testid": `group-lines-${name}` },
        clean(words),
      ),
    ];
    return h(
      "div",
      { key: "lines" },
      line("python", "To use these rules, in jupyterhub_config.py before configure(c):", this.view.python),
      line("chart", "Or in the values of the chart:", this.view.chart),
    );
  }

  #present() {
    return this.view.rules.map((each) => each.rule);
  }

  /** Shows what these rules would do, null for those of the configuration; `added`: the typed one is among them. */
  async #try(rules, added = false) {
    const before = this.tried;
    this.asked += 1;
    this.tried = rules;
    await this.read();
    if (this.refusal) this.tried = before;
    else if (added) this.typed = BLANK;
    this.changed();
  }
}

const KINDS = { group: "the group", prefix: "groups that begin with" };
const ROLES = { member: "member", lead: "lead" };

function choice(field, label, value, words, set) {
  return h(
    "select",
    {
      key: field,
      "aria-label": label,
      "data-testid": `group-rule-${field}`,
      on: { change: (event) => set(field, event.target.value) },
    },
    Object.entries(words).map(([key, word]) => h("option", { key, value: key, selected: key === value }, word)),
  );
}

function ruleOf({ kind, name, project, role, departments }) {
  const rule = { [kind]: name.trim() };
  if (project.trim()) rule.project = project.trim();
  if (kind === "group" && role !== "member") rule.role = role;
  if (kind === "prefix" && departments) rule.departments = true;
  return rule;
}

function drawEffect({ group, people, project, department, joins, exists, problem }, role) {
  const where = department ? `${clean(project)} in ${clean(department)}` : clean(project);
  return h(
    "tr",
    { key: group, "data-testid": `group-effect-${group}` },
    dataCells(
      HEADS,
      [
        clean(group),
        people.length,
        exists || problem ? where : `${where}, which the pool lacks`,
        role,
        role === "lead" ? "–" : joins.map(clean).join(", ") || "nobody",
        clean(problem),
      ],
      { "": "st-across" },
    ),
  );
}
