/** The line above the projects: the search, its findings, and the buttons for all projects. */

import { h } from "../visuals/base/dom.js";
import { button } from "../visuals/base/glyphs.js";
import { count } from "../visuals/base/words.js";

const LONGEST = 200;

/** @param add called to begin a new project; false for those who may not */
export function drawSearchLine({ projects, people }, found, rows, add) {
  const names = projects.map(({ name }) => name).filter((name) => found.projects.has(name));
  const areOpen = names.length > 0 && names.every((name) => rows.isOpen(name));
  const areAll = names.length === projects.length;
  return h(
    "div",
    { key: "tools", class: "st-tools", role: "search", "aria-label": "Projects and people" },
    h("input", {
      key: "search",
      type: "search",
      class: "form-control form-control-sm st-search",
      value: rows.search,
      maxlength: LONGEST,
      autocomplete: "off",
      placeholder: "Project, person or lead",
      "aria-label": "Search projects and people",
      "data-testid": "search-rows",
      on: { input: (event) => rows.find(event.target.value) },
    }),
    h(
      "span",
      { key: "found", class: "st-muted", role: "status", "data-testid": "rows-found" },
      `${foundWords(names.length, projects.length, "project")}, ${foundWords(found.people.size, people.length, "person", "people")}`,
    ),
    h(
      "span",
      { key: "buttons", class: "st-tool-buttons" },
      button("open-all", areOpen ? "Fold all" : "Open all", () => rows.turnAll(names, !areOpen, areAll), {
        disabled: !names.length,
      }),
      add && button("new-project-open", "New project…", add),
    ),
  );
}

/** `40 projects`; of a search `3 of 40 projects`. */
function foundWords(found, all, one, many) {
  return found === all ? count(all, one, many) : `${found} of ${count(all, one, many)}`;
}
