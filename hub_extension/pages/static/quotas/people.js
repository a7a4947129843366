/** People and their build quotas: their own where they have one, else what their projects give. */

import { refusalWords } from "./project_table.js";
import { call, site } from "../site.js";
import { parsed } from "./sums.js";
import { h } from "../visuals/base/dom.js";
import { emptyState } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";

const HEADS = ["person", "projects", "build GPUs in use", "build quota", "own build quota", ""];

/** The table of people. */
export function drawPeople(admin, editing) {
  if (!admin.people.length) return emptyState("Nobody is in a project yet.", "Add people to a project above.");
  return h(
    "div",
    { class: "table-responsive" },
    h(
      "table",
      { class: "table st-table st-edit-table", "data-testid": "people" },
      h("thead", {}, h("tr", {}, HEADS.map((head) => h("th", { key: head, scope: "col" }, head || h("span", { class: "st-hidden" }, "actions"))))),
      h("tbody", {}, admin.people.map((person) => drawPerson(person, editing))),
    ),
  );
}

function drawPerson(person, editing) {
  const { name } = person;
  const stored = person.own_build_quota === null ? "" : String(person.own_build_quota);
  const draft = editing.draft("person", name);
  const typed = draft?.texts.own_build_quota;
  const refusal = editing.refusal("person", name);
  const save = () => draft && editing.change("person", name, () => call("PATCH", `people/${encodeURIComponent(name)}`, { build_quota: ownQuota(typed) }));
  const key = (event) => {
    if (event.key === "Enter") save();
    if (event.key === "Escape") editing.discard("person", name);
  };
  return h(
    "tr",
    { key: `is ${name}`, "data-testid": `person-row-${name}` },
    h("th", { key: "name", scope: "row", class: "st-across" }, clean(name)),
    h("td", { key: "projects", "data-label": HEADS[1] }, person.projects.map(clean).join(", ") || "none"),
    h("td", { key: "used", "data-label": HEADS[2] }, person.build_used),
    h("td", { key: "quota", "data-label": HEADS[3] }, person.build_quota),
    h(
      "td",
      { key: "own", "data-label": HEADS[4] },
      h("input", {
        key: "field",
        type: "text",
        disabled: !site.admin,
        inputmode: "numeric",
        size: 8,
        autocomplete: "off",
        value: typed ?? stored,
        placeholder: "none",
        "aria-label": `Build quota of ${clean(name)}'s own`,
        "aria-invalid": String(Boolean(refusal)),
        "data-changed": String(typed !== undefined),
        "data-testid": `edit-own-${name}`,
        on: { input: (event) => editing.type("person", name, "own_build_quota", event.target.value, stored), keydown: key },
      }),
      refusal && refusalWords(refusal, `person-refusal-${name}`),
    ),
    h(
      "td",
      { key: "actions", class: "st-across" },
      draft &&
        h(
          "div",
          { class: "st-row-actions" },
          h("button", { key: "discard", type: "button", class: "st-button", on: { click: () => editing.discard("person", name) } }, "Discard"),
          h("button", { key: "save", type: "button", class: "st-button st-primary", "data-testid": `save-person-${name}`, on: { click: save } }, "Save"),
        ),
    ),
  );
}

function ownQuota(text) {
  if (text.trim() === "") return null;
  const value = parsed(text);
  if (value === undefined) throw Object.assign(new Error(`The build quota is “${text}”; expected a whole number from 0, or nothing for that of the projects.`), { field: "build_quota" });
  return value;
}
