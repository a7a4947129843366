/** Who leads a project and who is in it: added and removed in place, or locked with the reason. */

import { call, site } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";
import { refusalWords } from "./refusals.js";

/** The people who lead a project, with those who lead every project last. */
export function drawLeads(project, editing) {
  const { leads } = editing.admin();
  const own = leads[project.name] ?? [];
  const names = new Set(own.map((lead) => lead.name));
  const everywhere = (leads[""] ?? []).filter((lead) => !names.has(lead.name));
  return drawList(editing, project, {
    kind: "lead",
    path: "leads",
    people: [...own, ...everywhere.map((lead) => ({ ...lead, locked: `${lead.locked} It is for every project.` }))],
    title: ["led by", "no lead of its own"],
    prompt: "add a lead",
    mayChange: site.admin,
  });
}

/** The members of a project. */
export function drawMembers(project, editing) {
  const { locked_members: locked, configured_members: configured } = editing.admin();
  const always = new Set(configured[project.name] ?? []);
  const why = (name) => locked || (always.has(name) ? "The hub's configuration adds this person at each start." : "");
  return drawList(editing, project, {
    kind: "member",
    path: "members",
    people: project.members.map((name) => ({ name, locked: why(name) })),
    title: ["members", "no members yet"],
    prompt: "add a person",
    mayChange: !locked,
    note: locked,
  });
}

function drawList(editing, project, { kind, path, people, title, prompt, mayChange, note }) {
  const { name } = project;
  const draft = () => editing.draft(kind, name);
  const user = () => (draft()?.texts.user ?? "").trim();
  const refusal = editing.refusal(kind, name);
  const address = (person) => `projects/${encodeURIComponent(name)}/${path}/${encodeURIComponent(person)}`;
  const add = () => {
    const added = user();
    if (added) editing.changeNext(kind, name, () => call("PUT", address(added)), draft());
  };
  const remove = (person) => () => editing.changeNext(kind, name, () => call("DELETE", address(person)), null);
  return h(
    "div",
    { key: kind, class: "st-chips" },
    h("span", { key: "title", class: "st-muted" }, people.length ? title[0] : title[1]),
    people.map((person) => drawPerson(person, { kind, path, project: name, mayChange, remove: remove(person.name) })),
    mayChange &&
      h(
        "span",
        { key: "add", class: "st-inline" },
        h("input", {
          key: "user",
          type: "text",
          value: draft()?.texts.user ?? "",
          placeholder: prompt,
          autocomplete: "off",
          "aria-label": `Person to add to the ${path} of ${clean(name)}`,
          "data-testid": `${kind}-add-${name}`,
          on: {
            input: (event) => editing.type(kind, name, "user", event.target.value, ""),
            keydown: (event) => event.key === "Enter" && add(),
          },
        }),
        user() && button(`${kind}-add-button-${name}`, "Add", add),
      ),
    note && h("span", { key: "note", class: "st-muted" }, note),
    refusal && refusalWords(refusal, `${kind}-refusal-${name}`),
  );
}

function drawPerson({ name, locked }, { kind, path, project, mayChange, remove }) {
  return h(
    "span",
    {
      key: `is ${name}`,
      class: locked || !mayChange ? "st-chip st-locked" : "st-chip",
      "data-testid": `${kind}-${project}-${name}`,
      title: locked || null,
    },
    clean(name),
    locked && h("span", { key: "lock", class: "st-muted" }, "locked"),
    locked && h("span", { key: "why", class: "visually-hidden" }, locked),
    mayChange &&
      !locked &&
      button(`${kind}-remove-${project}-${name}`, "×", remove, {
        "aria-label": `Remove ${clean(name)} from the ${path} of ${clean(project)}`,
        title: "Remove",
      }),
  );
}
