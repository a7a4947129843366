/** The table of projects: every number is a field, saved in place. */

import { call, site } from "../site.js";
import { dataCells, tableHead } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { focusOnce } from "../visuals/base/focus.js";
import { button, emptyState, projectMark } from "../visuals/base/glyphs.js";
import { amount, clean, listed } from "../visuals/base/words.js";
import { byType, standingWords } from "../visuals/charts/project_bar.js";
import { treeOrder } from "../visuals/views/pool_glance.js";
import { budgetButton, drawBudget, drawBudgetForm } from "./budgets.js";
import { drawBooked, drawEndings, drawFreezing, drawFrozen, freezeButton } from "./freezes.js";
import { drawByType, heldOf } from "./held_numbers.js";
import { drawLeads, drawMembers } from "./memberships.js";
import { drawRanges, rangeWords } from "./ranges.js";
import { refusalWords } from "./refusals.js";
import { drawLevel } from "./sums.js";

const NEW_PROJECT = "";
const HEADS = ["project", "GPUs held of the quota", "people", "led by"];

/** The projects that are found, each with its numbers, and its fields and members if it is open. */
export function drawProjects(admin, found, levels, editing, copies) {
  const { projects } = admin;
  const shown = projects.filter(({ name }) => found.projects.has(name));
  const depths = new Map(treeOrder(shown).map(({ project, depth }) => [project.name, depth]));
  return h(
    "div",
    { key: "projects", class: "table-responsive" },
    h(
      "table",
      { class: "table st-table st-edit-table st-projects", "data-testid": "projects" },
      tableHead(HEADS),
      h(
        "tbody",
        {},
        editing.gone().map((name) => drawGoneRow(name, HEADS.length, editing)),
        drawNewRow(projects, editing),
        treeOrder(projects).flatMap(({ project }) => {
          const { name } = project;
          const isFound = depths.has(name);
          return [
            isFound && drawHead(project, depths.get(name), found.projects.get(name), admin, levels, editing),
            editing.rows.isKept(name) &&
              drawProject(project, projects, editing, copies, isFound && editing.rows.isOpen(name)),
          ];
        }),
      ),
    ),
    shown.length === 0 && projects.length > 0 && emptyState("No project is found.", "Search for other words above."),
  );
}

/** A column's head: small letters, but a GPU type as it is. */
function headWords({ title, type }) {
  return type === undefined ? title.toLowerCase() : title.slice(0, -clean(type).length).toLowerCase() + clean(type);
}

/** The head of a project: its numbers, which stay while it is folded. */
function drawHead(project, depth, members, { leads }, levels, editing) {
  const { name, parent } = project;
  const isOpen = editing.rows.isOpen(name);
  const cells = [
    drawHeld(project, levels),
    amount(project.members.length),
    listed((leads[name] ?? []).map((lead) => clean(lead.name))) || "–",
  ];
  const [, ...heads] = HEADS;
  return h(
    "tr",
    { key: `row ${name}`, class: "st-project-head", "data-testid": `project-row-${name}` },
    h(
      "th",
      { key: "name", scope: "row", class: "st-name st-across", style: { "--st-depth": depth } },
      button(`fold-${name}`, [foldMark(isOpen), projectMark(name, project.colour)], () => editing.rows.turn(name), {
        class: "st-fold",
        "aria-expanded": String(isOpen),
        hook: editing.rows.focusIf(`project ${name}`),
      }),
      drawWhere(depth === 0 ? parent : null, members),
      marksOf(project, editing).map((mark) => h("span", { key: mark, class: "st-tag-mark" }, mark)),
    ),
    dataCells(heads, cells),
  );
}

/** Where a project is that is shown without the one around it, and the members by whom it was found. */
function drawWhere(parent, members) {
  const words = [
    parent !== null && `in ${clean(parent)}`,
    members.length > 0 && `with ${listed(members.map((member) => clean(member)))}`,
  ].filter(Boolean);
  return words.length > 0 && h("small", { key: "where", class: "st-muted" }, words.join(", "));
}

function foldMark(isOpen) {
  return h("span", { key: "mark", class: "st-fold-mark", "aria-hidden": "true" }, isOpen ? "▾" : "▸");
}

/** The GPUs held of the present quota, and below them the quotas of the projects inside. */
function drawHeld(project, levels) {
  return drawByType(
    byType(project).map(({ present_quota: quota, ...of }) => ({
      type: of.type,
      content: [
        h(
          "span",
          { key: "held", class: of.borrowed ? "st-borrows" : null, title: standingWords({ ...of, quota }) },
          heldOf(of.held, quota, of.type),
        ),
        drawLevel(levels.get(of.type)?.get(project.name)),
      ],
    })),
  );
}

/** Words for the peculiarities of a project. */
function marksOf({ name, freeze, endings, budget }, editing) {
  return [
    editing.isChanged("project", name) && "not saved",
    editing.refusal("project", name) && "refused",
    freeze && "frozen",
    Object.keys(endings ?? {}).length > 0 && "temporary",
    budget?.over && "budget spent",
  ].filter(Boolean);
}

/** Why the change of a project was refused, or would be; null if neither is known. */
function refusalOf(name, editing) {
  return editing.refusal("project", name) ?? editing.foreseen("project", name);
}

/** The fields, members and rules of a project; hidden they keep the typed values. */
function drawProject(project, projects, editing, copies, isShown) {
  const { name } = project;
  const refusal = refusalOf(name, editing);
  return h(
    "tr",
    { key: `more ${name}`, class: "st-follows", hidden: !isShown, "data-testid": `project-${name}` },
    h(
      "td",
      { class: "st-across", colspan: HEADS.length },
      drawFields(project, projects, editing, refusal),
      drawRowActions(project, editing, copies.button(project, projects)),
      copies.draw(project, projects, editing),
      refusal && refusalWords(refusal, `refusal-${name}`),
      editing.notes("project", name).map((note) => drawNote(note, name)),
      drawFrozen(project),
      drawFreezing(project, editing),
      drawBudget(project),
      drawBudgetForm(project, editing),
      drawEndings(project, valueWords),
      drawBooked(project),
      drawLeads(project, editing),
      drawMembers(project, editing),
      drawRanges(project, editing, refusalWords, mayChange(project)),
    ),
  );
}

/** The numbers of a project as fields, each under its name. */
function drawFields(project, projects, editing, refusal) {
  const { name } = project;
  return h(
    "div",
    { key: "fields", class: "st-fields", on: { keydown: (event) => keys(event, name, editing) } },
    Object.entries(editing.fields).map(([field, known]) =>
      h("div", { key: field, "data-label": headWords(known) }, drawField(project, field, projects, editing, refusal)),
    ),
  );
}

/** The typed values of a project that has been deleted meanwhile. */
function drawGoneRow(name, width, editing) {
  const typed = Object.entries(editing.draft("project", name).texts)
    .filter(([field]) => editing.fields[field])
    .map(([field, text]) => `${headWords(editing.fields[field])} ${clean(text) || "none"}`);
  return h(
    "tr",
    { key: `gone ${name}`, "data-testid": `project-gone-${name}` },
    h(
      "td",
      { class: "st-across", colspan: width },
      h("strong", { key: "name" }, clean(name)),
      " ",
      refusalWords(editing.refusal("project", name) ?? { message: editing.deletion(name) }, `refusal-${name}`),
      h("p", { key: "typed", class: "mb-1" }, `Typed and not saved: ${typed.join(", ")}.`),
      button(`discard-${name}`, "Discard", () => editing.discard("project", name)),
    ),
  );
}

/** What a change of a project brought about elsewhere. */
function drawNote(note, name) {
  return h(
    "p",
    { key: `note ${note}`, class: "st-problem mb-1", role: "status", "data-testid": `note-${name}` },
    clean(note),
  );
}

function keys(event, name, editing) {
  if (event.target.tagName !== "INPUT") return;
  if (event.key === "Enter") editing.saveProject(name);
  if (event.key === "Escape") editing.discard("project", name);
}

/** Whether the viewer may change a project's numbers: those of the projects inside theirs. */
function mayChange(project, field) {
  return site.admin || (field !== "parent" && project.parent !== null && site.administers(project.parent));
}

function drawField(project, field, projects, editing, refusal) {
  const { name, version } = project;
  const known = editing.fields[field];
  const stored = name === NEW_PROJECT ? known.start : known.show(known.stored(project));
  const texts = editing.draft("project", name)?.texts ?? {};
  const typed = texts[field];
  const changed = Object.keys(texts).some((key) => editing.fields[key]?.name === known.name);
  const id = name === NEW_PROJECT ? `new-project-${known.label}` : `edit-${known.label}-${name}`;
  const props = {
    "aria-label": name === NEW_PROJECT ? `${known.title} of the new project` : `${known.title} of ${clean(name)}`,
    "aria-invalid": String(refusal?.field === known.name && (typed !== undefined || !changed)),
    "data-changed": String(typed !== undefined),
    "data-testid": id,
    disabled: !mayChange(project, field),
    value: typed ?? stored,
    title: typed === undefined ? known.hint : `It is ${stored || known.placeholder || "none"} now`,
  };
  const type = (event) => editing.type("project", name, field, event.target.value, stored, version);
  if (field === "parent") return drawParent(project, projects, { ...props, on: { change: type } });
  return h("input", {
    ...props,
    type: "text",
    inputmode: field === "weight" ? "decimal" : "numeric",
    size: 8,
    autocomplete: "off",
    placeholder: known.placeholder ?? null,
    on: { input: type },
  });
}

function drawParent(project, projects, props) {
  const { value, ...rest } = props;
  const others = projects.filter((other) => other.name !== project.name);
  return h(
    "select",
    {
      ...rest,
      hook: (node) => {
        node.value = value;
      },
    },
    h("option", { key: "none", value: "" }, "none"),
    others.map((other) => h("option", { key: `is ${other.name}`, value: other.name }, clean(other.name))),
  );
}

function drawRowActions(project, editing, copyButton) {
  const { name } = project;
  const key = `delete ${name}`;
  if (editing.draft("project", name)) {
    return h(
      "div",
      { key: "edit", class: "st-row-actions" },
      h("span", { key: "for", class: "st-until", "aria-hidden": "true" }, "until"),
      h("input", {
        key: "until",
        type: "datetime-local",
        class: "form-control form-control-sm w-auto",
        title: "When this change ends by itself and the earlier values return; empty for good",
        "aria-label": `End of the change of ${clean(name)}, or empty for good`,
        "data-testid": `until-${name}`,
        on: { input: (event) => editing.end(name, event.target.value), keydown: (event) => keys(event, name, editing) },
      }),
      button(`discard-${name}`, "Discard", () => editing.discard("project", name)),
      button(`save-${name}`, "Save", () => editing.saveProject(name), {
        class: "st-button st-primary",
        disabled: editing.busy(`project ${name}`) || editing.foreseen("project", name) !== null,
      }),
    );
  }
  if (!site.admin || !editing.asking(key)) {
    return h(
      "div",
      { key: "still", class: "st-row-actions" },
      freezeButton(project, editing),
      budgetButton(project, editing),
      copyButton,
      site.admin && button(`delete-${name}`, "Delete…", () => editing.ask(key)),
    );
  }
  const remove = () => editing.change("project", name, () => call("DELETE", `projects/${encodeURIComponent(name)}`));
  return h(
    "div",
    { key: "asking", class: "st-row-actions" },
    h(
      "span",
      { key: "what", class: "st-muted" },
      `Delete the project “${clean(name)}”? Its group in the hub stays, unless it was made with the project.`,
    ),
    h("button", { key: "keep", type: "button", class: "st-button", on: { click: () => editing.ask(null) } }, "Keep it"),
    button(`delete-confirm-${name}`, "Delete it", remove, {
      class: "st-button st-danger",
      disabled: editing.busy(`project ${name}`),
    }),
  );
}

function drawNewRow(projects, editing) {
  if (!editing.isAdding()) return [];
  const refusal = refusalOf(NEW_PROJECT, editing);
  const draft = editing.draft("project", NEW_PROJECT);
  const type = (event) => editing.type("project", NEW_PROJECT, "name", event.target.value, "");
  const blank = { name: NEW_PROJECT };
  return h(
    "tr",
    { key: "new", class: "st-follows", "data-testid": "new-project" },
    h(
      "td",
      { class: "st-across", colspan: HEADS.length },
      h("input", {
        key: "name",
        class: "st-new-name",
        type: "text",
        value: draft?.texts.name ?? "",
        placeholder: "name of the new project",
        autocomplete: "off",
        maxlength: 64,
        "aria-label": "Name of the new project",
        "aria-invalid": String(refusal?.field === "name"),
        "data-testid": "new-project-name",
        hook: focusOnce,
        on: { input: type, keydown: (event) => keys(event, NEW_PROJECT, editing) },
      }),
      drawFields(blank, projects, editing, refusal),
      h(
        "div",
        { key: "actions", class: "st-row-actions" },
        button("new-project-close", draft ? "Discard" : "Close", () => editing.discard("project", NEW_PROJECT)),
        button("new-project-save", "Add project", () => editing.saveProject(NEW_PROJECT), {
          class: "st-button st-primary",
          disabled:
            !draft || editing.busy(`project ${NEW_PROJECT}`) || editing.foreseen("project", NEW_PROJECT) !== null,
        }),
      ),
      refusal && refusalWords(refusal, "refusal-new-project"),
    ),
  );
}

function isAmount(value) {
  return value === null || typeof value === "number";
}

/** A field's value in words. */
export function valueWords(value) {
  if (value === null || value === undefined || value === "") return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value.max_priority !== undefined) return rangeWords(value);
  if (typeof value === "object" && !Array.isArray(value) && !Object.values(value).every(isAmount))
    return Object.entries(value)
      .map(([name, each]) => `${clean(name)} ${valueWords(each)}`)
      .join(", ");
  if (typeof value === "object" && !Array.isArray(value))
    return (
      Object.entries(value)
        .map(([type, gpus]) => `${gpus === null ? "none" : amount(gpus)} ${clean(type)}`)
        .join(", ") || "none"
    );
  if (Array.isArray(value)) return value.map(clean).join(", ") || "nobody";
  return typeof value === "number" ? amount(value) : clean(typeof value === "object" ? JSON.stringify(value) : value);
}
