/** People and their build quotas: their own, or else that of their projects. */

import { call, site } from "../site.js";
import { dataTable } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { button, emptyState } from "../visuals/base/glyphs.js";
import { clean, given } from "../visuals/base/words.js";
import { editClasses, typesOf } from "./fields.js";
import { drawLeaving } from "./leaving.js";
import { refusalWords } from "./refusals.js";
import { parsed, WHOLE } from "./sums.js";

const HEADS = ["person", "projects", "build GPUs held", "build quota", "own build quota", ""];

/** The name of the field with a person's own build quota; one of a GPU type adds the type. */
export const OWN = "own_build_quota";

/** The table of people. */
export function drawPeople(admin, editing) {
  const outside = drawOutside(admin.outside, editing);
  if (!admin.people.length && !outside)
    return emptyState("Nobody is in a project yet.", "Add people to a project above.");
  const heads = headsOf(typesOf(admin.sums).build);
  const people = admin.people.map((person) => drawPerson(person, editing));
  return h("div", { key: "all" }, dataTable("people", heads, people, { classes: editClasses(heads.length) }), outside);
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

function headsOf(types) {
  const [person, projects, ...rest] = HEADS;
  const numbers = rest.slice(0, 3);
  return [
    person,
    projects,
    ...(types.length ? types.flatMap((type) => numbers.map((head) => `${head}, ${clean(type)}`)) : numbers),
    "",
  ];
}

function drawPerson(person, editing) {
  const { name } = person;
  const types = Object.keys(person.by_type);
  const draft = editing.draft("person", name);
  const refusal = editing.refusal("person", name);
  const save = () => {
    const typed = editing.draft("person", name);
    if (typed)
      editing.change("person", name, () =>
        call("PATCH", `people/${encodeURIComponent(name)}`, { build_quota: ownQuota(typed.texts, person) }),
      );
  };
  const numbers = types.length
    ? types.flatMap((type) => drawNumbers(person, type, editing, save))
    : drawNumbers(person, null, editing, save);
  return h(
    "tr",
    { key: `is ${name}`, "data-testid": `person-row-${name}` },
    h("th", { key: "name", scope: "row", class: "st-across" }, clean(name)),
    h(
      "td",
      { key: "projects", class: "st-words", "data-label": HEADS[1] },
      person.projects.map(clean).join(", ") || "none",
    ),
    numbers,
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
            disabled: editing.busy(`person ${name}`),
          }),
        ),
    ),
  );
}

/** The cells of a person's numbers of one GPU type, null for the only one. */
function drawNumbers(person, type, editing, save) {
  const { name } = person;
  const of = type === null ? person : person.by_type[type];
  const field = type === null ? OWN : `${OWN} ${type}`;
  const label = (head) => (type === null ? head : `${head}, ${clean(type)}`);
  const stored = of.own_build_quota === null ? "" : String(of.own_build_quota);
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
    "aria-invalid": String(Boolean(editing.refusal("person", name))),
    "data-changed": String(typed !== undefined),
    "data-testid": type === null ? `edit-own-${name}` : `edit-own-${type}-${name}`,
    on: { input: (event) => editing.type("person", name, field, event.target.value, stored), keydown: key },
  };
  return [
    h("td", { key: `held ${type}`, "data-label": label(HEADS[2]) }, of.build_held),
    h("td", { key: `quota ${type}`, "data-label": label(HEADS[3]) }, of.build_quota),
    h("td", { key: `own ${type}`, "data-label": label(HEADS[4]) }, h("input", props)),
  ];
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
