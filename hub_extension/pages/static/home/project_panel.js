/** The panel of a chosen project: members, limits, what ends by itself, its freeze, and where it is changed. */

import { drawEndings, drawFreezing, drawFrozen, freezeButton } from "../quotas/freezes.js";
import { valueWords } from "../quotas/project_table.js";
import { rangeWords } from "../quotas/ranges.js";
import { queryOf } from "../quotas/rows_shown.js";
import { attempted, call, site } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button, projectMark } from "../visuals/base/glyphs.js";
import { amount, clean } from "../visuals/base/words.js";
import { byType, standingWords } from "../visuals/charts/project_bar.js";

export class ProjectPanel {
  /** @param changed called when the panel has to be drawn again */
  constructor(changed) {
    this.changed = changed;
    this.name = null;
    this.members = null;
    this.question = null;
    this.isBusy = false;
    this.problem = null;
    this.editing = {
      busy: () => this.isBusy,
      asking: (key) => this.question === key,
      ask: (key) => {
        this.question = key;
        this.changed();
      },
      change: (_kind, _name, work) => this.#change(work),
    };
  }

  /** Opens the panel of a project, and reads its members. */
  async open(name) {
    Object.assign(this, { name, members: null, question: null, problem: null, opener: document.activeElement });
    this.changed();
    const admin = await attempted(() => call("GET", "admin"));
    if (this.name !== name) return;
    this.members = admin?.projects.find((project) => project.name === name)?.members ?? [];
    this.changed();
  }

  close() {
    const { opener } = this;
    this.name = null;
    this.changed();
    if (opener?.isConnected) opener.focus();
  }

  async #change(work) {
    this.isBusy = true;
    this.problem = null;
    this.changed();
    try {
      await work();
      this.question = null;
    } catch (error) {
      this.problem = error.message;
    }
    this.isBusy = false;
    this.changed();
    return this.problem === null;
  }

  draw(pool) {
    const project = this.name !== null && pool.projects.find(({ name }) => name === this.name);
    if (!project) return null;
    const focusOnce = (node) => {
      if (node.dataset.focused === this.name) return;
      node.dataset.focused = this.name;
      node.focus();
    };
    return h(
      "aside",
      {
        key: "panel",
        class: "st-home-panel",
        tabindex: -1,
        "aria-label": `Project ${clean(project.name)}`,
        "data-testid": "project-panel",
        hook: focusOnce,
        on: { keydown: (event) => event.key === "Escape" && this.close() },
      },
      h(
        "header",
        { key: "head", class: "st-home-panel-head" },
        h("h2", {}, projectMark(project.name, project.colour)),
        button("panel-close", "Close", () => this.close(), { class: "st-button st-small" }),
      ),
      project.parent && h("p", { key: "in", class: "st-muted" }, `Inside ${clean(project.parent)}`),
      drawFrozen(project),
      drawFreezing(project, this.editing),
      this.problem && h("p", { key: "problem", class: "st-problem", role: "alert" }, clean(this.problem)),
      drawEndings(project, valueWords),
      h(
        "dl",
        { key: "facts", class: "st-home-facts" },
        factsOf(project).map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))),
        h(
          "div",
          { key: "members" },
          h("dt", {}, "Members"),
          h("dd", {}, this.members === null ? "…" : this.members.map(clean).join(", ") || "nobody yet"),
        ),
      ),
      h(
        "p",
        { key: "links", class: "st-need-actions" },
        freezeButton(project, this.editing),
        h(
          "a",
          { key: "change", class: "st-button", href: `${site.prefix}admin?${queryOf(project.name)}` },
          "Quotas and members",
        ),
        h("a", { key: "audit", class: "st-button", href: auditOf(project) }, "Audit trail"),
        h("a", { key: "report", class: "st-button", href: `${site.prefix}report?by=project,person` }, "Report"),
      ),
    );
  }
}

/** The address of the audit trail of a project. */
function auditOf({ name }) {
  return `${site.prefix}admin?${new URLSearchParams({ project: name })}#audit`;
}

function factsOf(project) {
  const types = byType(project);
  const held = types.map((of) => [of.type ? `GPUs, ${clean(of.type)}` : "GPUs", standingWords(of)]);
  const limits = types.map((of) => [
    of.type ? `Limit, ${clean(of.type)}` : "Limit",
    of.limit === null ? "none" : amount(of.limit),
  ]);
  return [
    ...held,
    ...limits,
    ["Weight", amount(project.weight)],
    ["Priority", amount(project.priority)],
    ["Build quota of each member", amount(project.build_quota)],
    ["Jobs may ask for", rangeWords(project.ranges)],
  ];
}
