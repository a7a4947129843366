/** The panel of a chosen project: members, limits, what ends by itself, its freeze, and where it is changed. */

import { describe, gpuWords, timesOf } from "../pool/booking_words.js";
import { drawBudget } from "../quotas/budgets.js";
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
    this.budget = null;
    this.bookings = [];
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

  /** Opens the panel of a project, and reads its members, its budget, and the bookings that change its quota. */
  async open(name) {
    const nothing = { members: null, budget: null, bookings: [], question: null, problem: null };
    Object.assign(this, { ...nothing, name, opener: document.activeElement });
    this.changed();
    const [admin, bookings] = await Promise.all([
      attempted(() => call("GET", "admin")),
      attempted(() => call("GET", "bookings")),
    ]);
    if (this.name !== name) return;
    this.members = admin?.projects.find((project) => project.name === name)?.members ?? [];
    this.budget = admin?.budgets.find(({ project }) => project === name) ?? null;
    this.bookings = bookings?.items.filter(({ project, lends }) => project === name || name in lends) ?? [];
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
      drawBudget({ name: project.name, budget: this.budget }),
      this.bookings.map((booking) => drawBooking(booking, project.name)),
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

/** A booking that gives a project GPUs, or takes some of its quota. */
function drawBooking(booking, name) {
  const { number, project, lends, begun } = booking;
  const isOwn = project === name;
  const lent = isOwn ? "" : `lends ${gpuWords(lends[name])} to ${clean(project)}, ${timesOf(booking)}`;
  return h(
    "p",
    { key: `booking ${number}`, class: "st-muted mb-1", "data-testid": `panel-booking-${number}` },
    h("a", { key: "link", href: `${site.prefix}pool` }, `Booking ${number}`),
    `${begun ? " (now)" : ""}: ${isOwn ? describe(booking) : lent}.`,
  );
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
