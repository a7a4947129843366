/** People and their build quotas: their own, or else that of their projects. */

import { call, site } from "../site.js";
import { dataTable } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { button, emptyState } from "../visuals/base/glyphs.js";
import { amount, clean, given } from "../visuals/base/words.js";
import { drawByType, heldOf } from "./held_numbers.js";
import { drawLeaving } from "./leaving.js";
import { refusalWords } from "./refusals.js";
import { parsed, WHOLE } from "./sums.js";

const HEADS = ["person", "projects", "build GPUs held of the quota", "own build quota", ""];

const MORE = "st-button st-more";

/** The name of the field with a person's own build quota; one of a GPU type adds the type. */
export const OWN = "own_build_quota";

/** The people that are found: the first of them, or all. */
export function drawPeople(admin, found, editing) {
  const { rows } = editing;
  const outside = drawOutside(admin.outside, editing);
  if (!admin.people.length && !outside)
    return emptyState("No project has members yet.", "Add people to a project above.");
  const people = admin.people.filter(({ name }) => found.people.has(name));
  const first = rows.firstOf(people);
  return h(
    "div",
    { key: "all" },
    people.length > 0 || !admin.people.length
      ? dataTable(
          "people",
          HEADS,
          first.map((person) => drawPerson(person, editing)),
          { classes: "st-edit-table st-people" },
        )
      : emptyState("Nobody is found.", "Search for other words above."),
    rows.areMany(people) &&
      (rows.everybody
        ? button("people-first", "Show the first people only", () => rows.showEverybody(false), { class: MORE })
        : button("people-all", `${amount(people.length - first.length)} more people`, () => rows.showEverybody(), {
            class: MORE,
          })),
    outside,
  );
}

/** People in no project any more, or no users of the hub, whose jobs have not ended. */
function drawOutside(names, editing) {
  return (
    site.admin &&
    names.length > 0 &&
    h(
      "div",
      { key: "outside", "data-testid": "people-outside" },
      h("p", { key: "title", class: "st-muted" }, "In no project any more, with jobs that have not ended:"),
      names.map((name) =>
        h("div", { key: `is ${name}`, class: "st-chips" }, h("strong", {}, clean(name)), drawLeaving(name, editing)),
      ),
    )
  );
}

function drawPerson(person, editing) {
  const { name } = person;
  const types = Object.entries(person.by_type);
  const numbers = types.length ? types : [[null, person]];
  const draft = editing.draft("person", name);
  const foreseen = editing.foreseen("person", name);
  const refusal = editing.refusal("person", name) ?? foreseen;
  const save = () => {
    const typed = editing.draft("person", name);
    if (typed)
      editing.change("person", name, () =>
        call("PATCH", `people/${encodeURIComponent(name)}`, ownQuotaOf(typed, person)),
      );
  };
  return h(
    "tr",
    { key: `is ${name}`, "data-testid": `person-row-${name}` },
    h("th", { key: "name", scope: "row", class: "st-across" }, clean(name)),
    h(
      "td",
      { key: "projects", class: "st-words", "data-label": HEADS[1] },
      person.projects.map(clean).join(", ") || "none",
    ),
    h(
      "td",
      { key: "held", "data-label": HEADS[2] },
      drawByType(numbers.map(([type, of]) => ({ type, content: heldOf(of.build_held, of.build_quota, type) }))),
    ),
    h(
      "td",
      { key: "own", "data-label": HEADS[3] },
      h(
        "div",
        { class: "st-own-quotas" },
        numbers.map(([type, of]) => drawOwnQuota(name, type, of, editing, { save, refusal })),
      ),
    ),
    h(
      "td",
      { key: "actions", class: "st-across" },
      refusal && refusalWords(refusal, `person-refusal-${name}`),
      site.admin && !draft && drawLeaving(name, editing),
      draft &&
        h(
          "div",
          { key: "edit", class: "st-row-actions" },
          h(
            "button",
            {
              key: "discard",
              type: "button",
              class: "st-button",
              on: { click: () => editing.discard("person", name) },
            },
            "Discard",
          ),
          button(`save-person-${name}`, "Save", save, {
            class: "st-button st-primary",
            disabled: editing.busy(`person ${name}`) || foreseen !== null,
          }),
        ),
    ),
  );
}

/** The field of a person's own build quota of one GPU type, null for the only one. */
function drawOwnQuota(name, type, { own_build_quota: own }, editing, { save, refusal }) {
  const field = type === null ? OWN : `${OWN} ${type}`;
  const stored = own === null ? "" : String(own);
  const typed = editing.draft("person", name)?.texts[field];
  const key = (event) => {
    if (event.key === "Enter") save();
    if (event.key === "Escape") editing.discard("person", name);
  };
  const props = {
    key: "field",
    type: "text",
    disabled: !site.admin,
    inputmode: "numeric",
    size: 8,
    autocomplete: "off",
    value: typed ?? stored,
    placeholder: "none",
    "aria-label": `Build quota of ${clean(name)}'s own${type === null ? "" : `, ${clean(type)}`}`,
    "aria-invalid": String(Boolean(refusal)),
    "data-changed": String(typed !== undefined),
    "data-testid": type === null ? `edit-own-${name}` : `edit-own-${type}-${name}`,
    hook: editing.rows.focusIf(`person ${name}`),
    on: { input: (event) => editing.type("person", name, field, event.target.value, stored), keydown: key },
  };
  return h(
    "span",
    { key: `own ${type}`, class: "st-inline" },
    h("input", props),
    type !== null && h("small", { key: "type", class: "st-muted", "aria-hidden": "true" }, clean(type)),
  );
}

/** The typed own build quota of a person as it is sent. Throws an error for a text that is no number. */
export function ownQuotaOf({ texts }, person) {
  return { build_quota: ownQuota(texts, person) };
}

/** A person's own build quota as the API takes it: a number, or a table; null goes back to that of the projects. */
function ownQuota(texts, person) {
  const types = Object.keys(person.by_type);
  if (!types.length) return ownNumber(texts[OWN]);
  const numbers = types.map((type) =>
    texts[`${OWN} ${type}`] === undefined ? person.by_type[type].own_build_quota : ownNumber(texts[`${OWN} ${type}`]),
  );
  if (numbers.every((number) => number === null)) return null;
  return Object.fromEntries(types.map((type, at) => [type, numbers[at] ?? 0]));
}

function ownNumber(text) {
  if (text.trim() === "") return null;
  const value = parsed(text);
  if (value === undefined)
    throw Object.assign(
      new Error(`The build quota is ${given(text)}; expected ${WHOLE}, or nothing for that of the projects.`),
      { field: "build_quota" },
    );
  return value;
}
