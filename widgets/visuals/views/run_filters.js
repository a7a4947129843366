/** The filters and the order of the table: kept in an address, sent to the server, drawn as fields. */

import { h, memory } from "../base/dom.js";
import { briefState, button, stateWord, tagWord } from "../base/glyphs.js";
import { clean, timeZone } from "../base/words.js";

const ACTIVE = ["queued", "starting", "running", "pausing", "cancelling", "ending", "paused"];
const ENDED = ["succeeded", "failed", "cancelled"];
const STATES = { active: ACTIVE, ended: ENDED, all: [] };
const TIMES = {
  "": "any time",
  3600: "the last hour",
  86400: "the last day",
  604800: "the last week",
  2592000: "the last 30 days",
};
const ORDERS = {
  running: "running first",
  latest: "by time",
  newest: "newest first",
  state: "by state",
  name: "by name",
  project: "by project",
  user: "by person",
  "-gpus": "most GPUs first",
};
const FIRST = {
  show: "active",
  everybody: false,
  state: "",
  project: "",
  within: "",
  search: "",
  tag: "",
  archived: "",
  group: "",
  order: "running",
};
const ARCHIVED = { "": "without archived", yes: "archived only", all: "archived too" };
const GROUPED = {
  "": "no groups",
  project: "by project",
  person: "by person",
  state: "by state",
  name: "by name",
  tag: "by tag",
};
/** Whether a search is a condition on arguments, metrics and columns, rather than words. */
const IS_CONDITION = /[<>=~≤≥≠]|^\s*not\s|\sin\s*[([]/i;
const SETTLED_MS = 200;
const REFUSED = "springtide-search-refused";
const LONGEST_SEARCH = 500;

/** The filters in an address. */
export function filtersOf(address) {
  const query = new URLSearchParams(address);
  const given = Object.fromEntries(Object.keys(FIRST).map((name) => [name, query.get(name) ?? FIRST[name]]));
  return {
    ...given,
    show: given.show in STATES ? given.show : FIRST.show,
    within: given.within in TIMES ? given.within : "",
    everybody: query.get("whose") === "all",
  };
}

/** The states of the jobs that the filters let through; none for all states. */
function statesOf({ show, state }) {
  return state ? [state] : STATES[show];
}

/** Whether the filters let a job through by its state. */
export function passes(filters, job) {
  const states = statesOf(filters);
  return !states.length || states.includes(briefState(job));
}

/** The query of a page address with the filters; with the time `now`, the query for the server's list. */
export function queryOf(filters, now = null) {
  const query = new URLSearchParams();
  const { show, everybody, state, project, within, search, tag, archived, group, order } = filters;
  if (project) query.set("project", project);
  const isCondition = now !== null && IS_CONDITION.test(search);
  if (search) query.set(isCondition ? "where" : "search", search);
  if (isCondition) query.set("zone", timeZone());
  if (tag) query.set("tag", tag);
  if (archived) query.set("archived", archived);
  if (now === null) {
    if (show !== FIRST.show) query.set("show", show);
    if (everybody) query.set("whose", "all");
    if (state) query.set("state", state);
    if (within) query.set("within", within);
    if (group) query.set("group", group);
    if (order !== FIRST.order) query.set("order", order);
    return query;
  }
  const states = statesOf(filters);
  if (states.length) query.set("state", states.join(","));
  if (!everybody) query.set("mine", "1");
  if (within) query.set("since", Math.max(0, now - Number(within)));
  query.set("order", order);
  return query;
}

/**
 * The fields. `choose` receives the changed filters.
 * @param refused content that says why the search was refused, or null
 */
export function drawFilters(filters, projects, choose, isAdmin, refused) {
  const { show } = filters;
  const pick = (name) => (event) => choose({ [name]: event.target.value });
  return h(
    "div",
    { key: "filters", class: "st-filters", role: "search", "aria-label": "Jobs" },
    h(
      "div",
      { key: "shown", class: "btn-group", role: "group", "aria-label": "Which jobs" },
      Object.keys(STATES).map((name) =>
        button(`filter-${name}`, name, () => choose({ show: name, state: "" }), {
          class: `btn btn-sm ${show === name ? "st-chosen" : "st-offered"}`,
          "aria-pressed": String(show === name),
        }),
      ),
    ),
    drawSearch(filters.search, choose, refused),
    filters.tag &&
      button(
        "clear-tag",
        [tagWord(filters.tag), h("span", { "aria-hidden": "true" }, " ×")],
        () => choose({ tag: "" }),
        { class: "st-button st-tag-filter", "aria-label": `Tag ${clean(filters.tag)}: show jobs without it too` },
      ),
    select(
      "state",
      "State",
      filters.state,
      {
        "": "any state",
        ...Object.fromEntries(
          (STATES[show].length ? STATES[show] : [...ACTIVE, ...ENDED]).map((state) => [state, stateWord(state)]),
        ),
      },
      pick("state"),
    ),
    select(
      "project",
      "Project",
      filters.project,
      { "": "any project", ...Object.fromEntries(projects.map(({ name }) => [name, clean(name)])) },
      pick("project"),
    ),
    select("within", "Submitted", filters.within, TIMES, pick("within")),
    select("archived", "Archived jobs", filters.archived, ARCHIVED, pick("archived")),
    select("group", "Groups", filters.group, GROUPED, pick("group")),
    select("order", "Order", filters.order, ORDERS, pick("order"), " st-narrow"),
    h(
      "label",
      { key: "whose" },
      h("input", {
        type: "checkbox",
        checked: filters.everybody,
        "data-testid": "filter-everybody",
        on: { change: (event) => choose({ everybody: event.target.checked }) },
      }),
      isAdmin ? " Everybody's jobs" : " My projects' jobs too",
    ),
    refused &&
      h(
        "p",
        { key: "refused", id: REFUSED, class: "st-refused", role: "alert", "data-testid": "search-refused" },
        refused,
      ),
  );
}

function drawSearch(search, choose, refused) {
  const type = (event) => {
    const kept = memory(event.target, { timer: null });
    clearTimeout(kept.timer);
    kept.timer = setTimeout(() => {
      kept.timer = null;
      choose({ search: event.target.value.trim().slice(0, LONGEST_SEARCH) });
    }, SETTLED_MS);
  };
  const fill = (field) => {
    if (document.activeElement !== field && memory(field, { timer: null }).timer === null) field.value = search;
  };
  return h("input", {
    key: "search",
    class: "form-control form-control-sm st-search",
    type: "search",
    placeholder: "Words, or lr > 0.1 and val_loss < 0.3",
    title:
      "Words of a name, a project, a person or a tag, or a set argument such as --amp; or a condition such as best.acc > 0.9",
    "aria-label": "Search jobs",
    "aria-invalid": refused ? "true" : null,
    "aria-describedby": refused ? REFUSED : null,
    "data-testid": "search-jobs",
    hook: fill,
    on: { input: type },
  });
}

function select(name, label, value, choices, pick, classes = "") {
  return h(
    "select",
    {
      key: name,
      class: `form-select form-select-sm${classes}`,
      value,
      "aria-label": label,
      "data-testid": `filter-${name}`,
      on: { change: pick },
    },
    Object.entries(choices).map(([key, words]) => h("option", { key, value: key, selected: key === value }, words)),
  );
}

/** Buttons to the previous and the next page, if any; the next one is known once the list is `ready`. */
export function drawPager({ number, next, ready }, { back, on }) {
  if (number === 1 && !next) return null;
  return h(
    "nav",
    { key: "pager", class: "st-pager", "aria-label": "Pages of jobs" },
    button("jobs-back", "← Before", back, { disabled: number === 1 }),
    h("span", { key: "number", class: "st-muted", "data-testid": "jobs-page" }, `Page ${number}`),
    button("jobs-on", "More →", on, { disabled: !next || !ready }),
  );
}
