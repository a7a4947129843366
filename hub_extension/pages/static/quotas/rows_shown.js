/** The projects and people that the page shows: the search, and the open projects, kept in the page's address. */

import { clean } from "../visuals/base/words.js";

/** The most projects that begin open. */
const FEW = 5;
/** The most people that are shown without a click. */
const PEOPLE = 20;

/** The query of the page's address with which a project is shown, open. */
export function queryOf(name) {
  return new URLSearchParams({ search: name, shown: "none", but: name });
}

export class RowsShown {
  /** @param changed called when the page has to be drawn again */
  constructor(changed) {
    this.changed = changed;
    const query = new URLSearchParams(window.location.search);
    this.search = query.get("search") ?? "";
    this.areOpen = query.has("shown") ? query.get("shown") === "all" : null;
    this.turned = new Set(query.getAll("but"));
    this.everybody = query.get("people") === "all";
    this.drawn = new Set();
    this.sought = null;
  }

  /** Takes the number of projects, which says how they begin. */
  begin(projects) {
    this.begunOpen ??= projects <= FEW;
    this.areOpen ??= this.begunOpen;
  }

  isOpen(name) {
    return this.areOpen !== this.turned.has(name);
  }

  /** Whether the fields of a project are kept in the page: they hold typed values of a form, also while folded. */
  isKept(name) {
    if (this.isOpen(name)) this.drawn.add(name);
    return this.drawn.has(name);
  }

  turn(name) {
    this.#set([name], !this.isOpen(name));
    this.#keep();
  }

  /** Opens or folds projects; `areAll` says that they are all there are. */
  turnAll(names, isOpen, areAll) {
    if (areAll) {
      this.areOpen = isOpen;
      this.turned.clear();
    }
    this.#set(names, isOpen);
    this.#keep();
  }

  #set(names, isOpen) {
    for (const name of names) {
      if (isOpen === this.areOpen) this.turned.delete(name);
      else this.turned.add(name);
    }
  }

  find(search) {
    this.search = search;
    this.#keep();
  }

  showEverybody(isWanted = true) {
    this.everybody = isWanted;
    this.#keep();
  }

  /** Shows these projects and people whatever was searched for, and gives the first one the focus; `all` are all people. */
  bringUp(projects, people, all) {
    const [key] = [...projects.map((name) => `project ${name}`), ...people.map((name) => `person ${name}`)];
    this.search = "";
    this.#set(projects, true);
    const first = new Set(this.firstOf(all).map(({ name }) => name));
    if (people.some((name) => !first.has(name))) this.everybody = true;
    this.sought = key;
    this.#keep();
  }

  /** The hook of the element that gets the focus if its row is brought up. */
  focusIf(key) {
    return (node) => {
      if (this.sought !== key) return;
      this.sought = null;
      node.focus();
    };
  }

  /** The people of these that are shown. */
  firstOf(people) {
    return this.everybody ? people : people.slice(0, PEOPLE);
  }

  /** Whether these are more people than are shown without a click. */
  areMany(people) {
    return people.length > PEOPLE;
  }

  #keep() {
    const query = new URLSearchParams(window.location.search);
    for (const name of ["search", "shown", "but", "people"]) query.delete(name);
    if (this.search.trim()) query.set("search", this.search.trim());
    if (this.areOpen !== this.begunOpen || this.turned.size) query.set("shown", this.areOpen ? "all" : "none");
    for (const name of this.turned) query.append("but", name);
    if (this.everybody) query.set("people", "all");
    const { pathname, hash } = window.location;
    window.history.replaceState(null, "", `${pathname}${query.size ? `?${query}` : ""}${hash}`);
    this.changed();
  }
}

/**
 * What a search finds in an admin's view: the `projects`, by name with those of their `members` without whom it would
 * not find them; and the names of the `people`. Each of its words is part of the name of a project, of one around it,
 * of a lead or a member; or of a person, of a project of hers or of one around it.
 */
export function foundBy(search, { projects, people, leads }) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const byName = new Map(projects.map((project) => [project.name, project]));
  const isIn = (texts) => (word) => texts.some((text) => clean(text).toLowerCase().includes(word));
  const found = { projects: new Map(), people: new Set() };
  for (const { name, members } of projects) {
    const own = isIn([...pathOf(name, byName), ...(leads[name] ?? []).map((lead) => lead.name)]);
    const missing = words.filter((word) => !own(word));
    if (!missing.every(isIn(members))) continue;
    const named = members.filter((member) => missing.some(isIn([member])));
    found.projects.set(name, named);
  }
  for (const { name, projects: hers } of people)
    if (words.every(isIn([name, ...hers.flatMap((project) => pathOf(project, byName))]))) found.people.add(name);
  return found;
}

/** The name of a project and of those around it. */
function pathOf(name, byName) {
  const path = [];
  for (let at = name; at !== null && !path.includes(at); at = byName.get(at)?.parent ?? null) path.push(at);
  return path;
}
