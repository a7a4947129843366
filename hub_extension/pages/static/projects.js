/** Projects and quotas, edited in place by admins, and the audit trail. */

import { drawAccuracy } from "./quotas/accuracy.js";
import { AuditTrail } from "./quotas/audit.js";
import { withBudgets } from "./quotas/budgets.js";
import { asSet, bodyOf, fieldsOf, projectsOfType, projectWith, typesOf } from "./quotas/fields.js";
import { GroupRules } from "./quotas/group_rules.js";
import { drawOnHold } from "./quotas/on_hold.js";
import { drawPeople, OWN, ownQuotaOf } from "./quotas/people.js";
import { Presets } from "./quotas/presets.js";
import { Previews, requestOf } from "./quotas/previews.js";
import { drawProjects } from "./quotas/project_table.js";
import { foundBy, RowsShown } from "./quotas/rows_shown.js";
import { RuleCopies } from "./quotas/rule_copies.js";
import { drawSearchLine } from "./quotas/search_line.js";
import { buildSum, drawSums, parsed, quotaLevels } from "./quotas/sums.js";
import { WhatIf } from "./quotas/what_if.js";
import { Decisions } from "./requests/decisions.js";
import { attempted, call, followEvents, showMessage, site } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { button } from "./visuals/base/glyphs.js";
import { calmly, inOrder, oncePerFrame } from "./visuals/base/pace.js";
import { clean, clockNow, dated, given, listed, typedTime } from "./visuals/base/words.js";

const NEW = "";
const PROJECT_NAME = /^[^\u0000-\u001f\u007f/]{1,64}$/;
/** The kinds of drafts that are typed into the row of a project, and into that of a person. */
const DRAFTS = { project: ["project", "lead", "member", "ranges"], person: ["person", "leave"] };
const shown = {
  admin: null,
  accuracy: null,
  drafts: new Map(),
  refusals: new Map(),
  notes: new Map(),
  asking: null,
  isAdding: false,
  departure: null,
  busy: new Set(),
  ends: new Map(),
  linked: window.location.hash.slice(1),
};
const redraw = oncePerFrame(draw);
const reread = calmly(read, 0.3);
const trail = new AuditTrail(redraw, read);
const whatIf = new WhatIf(redraw);
const previews = new Previews(redraw);
const decisions = new Decisions(redraw, read);
const groupRules = new GroupRules(redraw);
const copies = new RuleCopies(redraw);
const rows = new RowsShown(redraw);
const presets = new Presets(redraw, () => trail.read());
const readView = inOrder(() => attempted(() => call("GET", "admin")), takeView);
const turns = new Map();

start();

async function start() {
  await read();
  followEvents({ admin: reread, again: reread, opened: reread });
}

async function read() {
  await readProjects();
  await readRest();
}

async function readProjects() {
  await readView();
  redraw();
}

function takeView(admin) {
  shown.admin = { ...admin, projects: withBudgets(admin).map(asSet) };
  rows.begin(admin.projects.length);
  editing.prices = { currency: admin.currency, priced: admin.has_prices };
  editing.fields = fieldsOf(typesOf(admin.sums));
}

function readRest() {
  const ofAdmins = site.admin ? [groupRules.read(), readAccuracy()] : [];
  return Promise.all([decisions.read().then(showLinked), presets.read(), trail.read(), ...ofAdmins]);
}

async function readAccuracy() {
  shown.accuracy = (await attempted(() => call("GET", "forecasts/accuracy"))) ?? shown.accuracy;
  redraw();
}

/** Brings the request that the address names into view, once. */
function showLinked() {
  if (!shown.linked || !decisions.items.length) return;
  draw();
  document.getElementById(shown.linked)?.scrollIntoView();
  shown.linked = "";
}

/** The present values of the fields, typed or stored; texts that are not numbers count as unchanged. */
function edited() {
  const { fields } = editing;
  const projects = shown.admin.projects.map((project) =>
    projectWith(project, valuesOf(draftOf("project", project.name)), fields),
  );
  const typed = draftOf("project", NEW)?.texts;
  const blank = { name: NEW, parent: null, quota: 0, build_quota: 0, by_type: {}, build_by_type: {} };
  if (typed && Object.keys(typed).length) projects.push(projectWith(blank, valuesOf(draftOf("project", NEW)), fields));
  return {
    projects,
    people: shown.admin.people.map((person) => personWith(person, draftOf("person", person.name)?.texts ?? {})),
  };
}

function personWith(person, texts) {
  const changed = { ...person, by_type: structuredClone(person.by_type) };
  for (const [key, text] of Object.entries(texts)) {
    const of = changed.by_type[key.slice(OWN.length + 1)] ?? changed;
    const value = text.trim() === "" ? null : parsed(text);
    if (value !== undefined) of.own_build_quota = value;
  }
  return changed;
}

function valuesOf(draft) {
  const values = {};
  for (const [field, text] of Object.entries(draft?.texts ?? {})) {
    const value = editing.fields[field]?.read(text);
    if (value !== undefined) values[field] = value;
  }
  return values;
}

/** The typed changes of existing projects, as they would be sent; none while one of them is invalid. */
function edits() {
  const found = {};
  for (const project of shown.admin.projects) {
    const draft = draftOf("project", project.name);
    if (!draft) continue;
    const values = valuesOf(draft);
    if (Object.keys(values).length < Object.keys(draft.texts).length) return {};
    found[project.name] = bodyOf(values, project, editing.fields);
  }
  return found;
}

function draftOf(kind, name) {
  return shown.drafts.get(`${kind} ${name}`);
}

function isChanged(row, name) {
  return DRAFTS[row].some((kind) => draftOf(kind, name));
}

const editing = {
  fields: {},
  rows,
  isChanged,
  prices: { currency: "", priced: false },
  draft: draftOf,
  admin: () => shown.admin,
  departure: () => shown.departure,

  /** Shows what would become of what the person has who is to leave; null while that is asked. */
  preview(departure) {
    shown.departure = departure;
    redraw();
  },
  refusal: (kind, name) => shown.refusals.get(`${kind} ${name}`),

  /** Why the typed values would be refused; null if they would not, and while that is not known. */
  foreseen: (kind, name) => previews.refused(`${kind} ${name}`),

  /** The names of projects that are gone, and of which there are typed changes. */
  gone: () =>
    [...shown.drafts.keys()]
      .filter((key) => key.startsWith("project "))
      .map((key) => key.slice("project ".length))
      .filter((name) => name !== NEW && !shown.admin.projects.some((project) => project.name === name)),

  /** Who has deleted a project, in a sentence. */
  deletion: (name) => {
    const entry = trail.items?.find(({ what, subject }) => what === "project.delete" && subject === name);
    const by = entry ? ` ${given(entry.who)} deleted it ${dated(entry.at)}.` : "";
    return `There is no project ${given(name)} any more.${by}`;
  },

  /** What the last change of a row brought about elsewhere, in sentences. */
  notes: (kind, name) => shown.notes.get(`${kind} ${name}`) ?? [],
  asking: (key) => shown.asking === key,
  busy: (key) => shown.busy.has(key),

  type(kind, name, field, text, stored, version) {
    const key = `${kind} ${name}`;
    const before = shown.drafts.get(key) ?? { texts: {}, version };
    keepDraft(
      key,
      { ...before, texts: without(before.texts, (each) => each === field) },
      text === stored ? {} : { [field]: text },
    );
    shown.refusals.delete(key);
    redraw();
  },

  /** Whether the fields of a new project are shown. */
  isAdding: () => shown.isAdding,

  discard(kind, name) {
    if (kind === "project" && name === NEW) shown.isAdding = false;
    shown.drafts.delete(`${kind} ${name}`);
    shown.ends.delete(name);
    shown.refusals.delete(`${kind} ${name}`);
    redraw();
  },

  /** Notes the typed end of the change of a project; an empty text means that it stays. */
  end(name, text) {
    shown.ends.set(name, typedTime(text));
    redraw();
  },

  ask(key) {
    shown.asking = key;
    redraw();
  },

  /**
   * Runs a change; a refusal, or the notes of the answer, are shown at its row. The `sent` draft and the busy mark of
   * the row stay until the stored values were read. A question opened in the meantime stays too.
   */
  async change(kind, name, work, sent = draftOf(kind, name)) {
    const key = `${kind} ${name}`;
    if (shown.busy.has(key)) return false;
    const { asking } = shown;
    let refusal = null;
    shown.busy.add(key);
    shown.refusals.delete(key);
    shown.notes.delete(key);
    redraw();
    try {
      const answer = await work();
      shown.notes.set(key, answer?.notes ?? []);
    } catch (error) {
      refusal = error;
    }
    await readProjects();
    if (refusal) shown.refusals.set(key, refusal);
    else {
      shown.refusals.clear();
      forgetSent(key, sent);
    }
    if (!refusal || refusal.code === "changed") renewVersion(kind, name);
    shown.busy.delete(key);
    if (shown.asking === asking) shown.asking = null;
    redraw();
    readRest();
    return !refusal;
  },

  /** Runs a change after all earlier ones of the same row that were queued in this way. */
  changeNext(kind, name, work, sent) {
    const key = `${kind} ${name}`;
    const turn = (turns.get(key) ?? Promise.resolve()).then(() => editing.change(kind, name, work, sent));
    turns.set(key, turn);
    return turn;
  },

  saveProject(name) {
    const draft = draftOf("project", name);
    if (!draft) return Promise.resolve(true);
    return editing.change("project", name, async () => {
      const edit = editOf(name, draft);
      if (name === NEW) return add(newName(draft.texts.name), edit);
      const answer = await call("PATCH", `projects/${encodeURIComponent(name)}`, edit);
      shown.ends.delete(name);
      return answer;
    });
  },

  /** Saves every changed project, those that give GPUs back first. */
  async saveAll() {
    const changes = shown.admin.projects
      .filter((project) => draftOf("project", project.name))
      .map((project) => ({ name: project.name, gain: gainOf(project) }))
      .sort((one, other) => one.gain - other.gain);
    for (const { name } of changes) if (!(await editing.saveProject(name))) return;
  },
};

/** The typed change of a project as it is sent. Throws an error for a text that is no value. */
function editOf(name, { texts, version }) {
  const stored = shown.admin.projects.find((project) => project.name === name);
  const body = bodyOf(readAll(texts), stored, editing.fields);
  return name === NEW ? body : { ...body, version, until: shown.ends.get(name) ?? null };
}

/** What would be saved by the rows of projects and people, by their keys; a new project counts once it has a name. */
function typedRequests() {
  const requests = new Map();
  for (const { name } of [...shown.admin.projects, { name: NEW }]) {
    const draft = draftOf("project", name);
    if (!draft || (name === NEW && !draft.texts.name?.trim())) continue;
    const make = () => {
      const of = encodeURIComponent(name === NEW ? newName(draft.texts.name) : name);
      // A change by others meanwhile is met at the save, after which the same can be saved once more.
      const { version, ...body } = editOf(name, draft);
      return { path: `projects/${of}/preview${name === NEW ? "?new=1" : ""}`, body };
    };
    requests.set(`project ${name}`, requestOf(make));
  }
  for (const person of shown.admin.people) {
    const draft = draftOf("person", person.name);
    const path = `people/${encodeURIComponent(person.name)}/preview`;
    if (draft)
      requests.set(
        `person ${person.name}`,
        requestOf(() => ({ path, body: ownQuotaOf(draft, person) })),
      );
  }
  return requests;
}

/** Makes a project, and shows it for its first members. */
async function add(name, body) {
  const answer = await call("PUT", `projects/${encodeURIComponent(name)}`, body);
  shown.isAdding = false;
  if (rows.search) rows.find("");
  if (!rows.isOpen(name)) rows.turn(name);
  return answer;
}

function gainOf(project) {
  const after = projectWith(project, valuesOf(draftOf("project", project.name)), editing.fields);
  return gpusOf(after) - gpusOf(project);
}

/** The total of GPUs that a project is given, of all types, only to order the saves. */
function gpusOf({ quota, build_quota: build, by_type: byType, build_by_type: buildByType }) {
  const quotas = Object.values(byType).map((of) => of.quota);
  const builds = Object.values(buildByType);
  return [...(quotas.length ? quotas : [quota]), ...(builds.length ? builds : [build])].reduce(
    (sum, gpus) => sum + (gpus ?? 1e9),
    0,
  );
}

function without(texts, dropped) {
  return Object.fromEntries(Object.entries(texts).filter(([field, text]) => !dropped(field, text)));
}

function keepDraft(key, { texts, version }, more = {}) {
  const kept = { ...texts, ...more };
  if (Object.keys(kept).length) shown.drafts.set(key, { texts: kept, version });
  else shown.drafts.delete(key);
}

/** Drops the saved values from the drafts; values typed during the save stay. */
function forgetSent(key, sent) {
  const typed = shown.drafts.get(key);
  if (typed) keepDraft(key, { ...typed, texts: without(typed.texts, (field, text) => sent?.texts[field] === text) });
}

function renewVersion(kind, name) {
  const draft = draftOf(kind, name);
  const project = shown.admin.projects.find((known) => known.name === name);
  if (draft && project) keepDraft(`${kind} ${name}`, { ...draft, version: project.version });
}

function newName(text) {
  const name = (text ?? "").trim();
  if (!name) throw Object.assign(new Error("A project needs a name."), { field: "name" });
  if (PROJECT_NAME.test(name)) return name;
  throw Object.assign(
    new Error(`The name is ${given(name)}; expected one of at most 64 characters without “/” and control characters.`),
    { field: "name" },
  );
}

function readAll(texts) {
  const values = {};
  for (const [field, text] of Object.entries(texts)) {
    const known = editing.fields[field];
    if (!known) continue;
    const value = known.read(text);
    if (value === undefined)
      throw Object.assign(new Error(`${known.title} is ${given(text)}; expected ${known.expected}.`), {
        field: known.name,
      });
    values[field] = value;
  }
  return values;
}

function draw() {
  if (!shown.admin) return;
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  const { projects, people } = edited();
  const levels = levelsByType(projects);
  whatIf.consider(
    [...levels.values()].some((of) => [...of.values()].some(({ total, room }) => total > room)) ? {} : edits(),
  );
  previews.consider(typedRequests());
  const found = foundBy(rows.search, shown.admin);
  patch(
    page,
    decisions.items.length > 0 &&
      h(
        "section",
        { key: "requests", class: "st-section" },
        h("h2", {}, `Requests (${decisions.items.length})`),
        decisions.draw(clockNow()),
      ),
    h(
      "div",
      { key: "top", class: "st-top" },
      site.admin && drawSums(sumsOf(projects, people, levels)),
      drawSearchLine(shown.admin, found, rows, site.admin && addProject),
    ),
    h(
      "section",
      { key: "projects", class: "st-section" },
      h("h2", {}, "Projects"),
      drawProjects(shown.admin, found, levels, editing, copies),
    ),
    shown.admin.on_hold.length > 0 &&
      h(
        "section",
        { key: "holds", class: "st-section" },
        h("h2", {}, "Jobs on hold"),
        drawOnHold(shown.admin.on_hold, editing),
      ),
    h(
      "section",
      { key: "people", class: "st-section" },
      h("h2", {}, "People"),
      drawPeople(shown.admin, found, editing),
    ),
    presets.draw(shown.admin.projects.map(({ name }) => name)),
    site.admin && groupRules.draw(),
    site.admin &&
      shown.accuracy &&
      h("section", { key: "accuracy", class: "st-section" }, h("h2", {}, "Forecasts"), drawAccuracy(shown.accuracy)),
    trail.items &&
      h(
        "section",
        { key: "audit", class: "st-section" },
        h("h2", {}, "Who changed what"),
        trail.draw(shown.admin.projects),
      ),
    drawSaving(found),
  );
}

function addProject() {
  shown.isAdding = true;
  redraw();
}

/** What the typed changes would do, those that are out of sight, and the button that saves all. */
function drawSaving(found) {
  const changed = shown.admin.projects.filter(({ name }) => draftOf("project", name)).length;
  const hidden = changesOutOfSight(found);
  const effects = whatIf.draw();
  if (changed < 2 && !hidden.length && !effects) return null;
  return h(
    "div",
    { key: "saving", class: "st-saving", "data-testid": "saving" },
    hidden.length > 0 &&
      h(
        "p",
        { key: "hidden", role: "status", "data-testid": "changes-hidden" },
        `${hidden.length === 1 ? "1 changed row is" : `${hidden.length} changed rows are`} hidden: `,
        `${listed(hidden.map(({ name }) => clean(name)))}. `,
        button("changes-show", "Show", () => showChanges(hidden)),
      ),
    effects,
    changed > 1 &&
      button("save-all", `Save all ${changed} changes`, editing.saveAll, { class: "st-button st-primary" }),
  );
}

/** The projects and people with typed changes whose fields are folded or were not found. */
function changesOutOfSight(found) {
  const { projects, people } = shown.admin;
  const listedPeople = new Set(rows.firstOf(people.filter(({ name }) => found.people.has(name))));
  return [
    ...projects
      .filter(({ name }) => isChanged("project", name) && !(found.projects.has(name) && rows.isOpen(name)))
      .map(({ name }) => ({ kind: "project", name })),
    ...people
      .filter((person) => isChanged("person", person.name) && !listedPeople.has(person))
      .map(({ name }) => ({ kind: "person", name })),
  ];
}

/** Brings changed rows into sight, and gives the first one the focus. */
function showChanges(hidden) {
  const names = (kind) => hidden.filter((row) => row.kind === kind).map(({ name }) => name);
  rows.bringUp(names("project"), names("person"), shown.admin.people);
}

/** The levels of quotas for each GPU type, for null where there is one. */
function levelsByType(projects) {
  const { sums } = shown.admin;
  const { train } = typesOf(sums);
  return new Map(
    (train.length ? train : [null]).map((type) => [
      type,
      quotaLevels(projectsOfType(projects, type), (type === null ? sums : sums.by_type[type]).train_gpus),
    ]),
  );
}

/** The sums at the top of the page, with the typed values. */
function sumsOf(projects, people, levels) {
  const { sums } = shown.admin;
  const { train, build } = typesOf(sums);
  return {
    ...sums,
    quota_sum: levels.get(null)?.get(null).total ?? 0,
    build_quota_sum: build.length ? 0 : buildSum(people, projects),
    by_type: Object.fromEntries(
      train.map((type) => [type, { ...sums.by_type[type], quota_sum: levels.get(type).get(null).total }]),
    ),
    build_by_type: Object.fromEntries(
      build.map((type) => [type, { ...sums.build_by_type[type], build_quota_sum: buildSum(people, projects, type) }]),
    ),
  };
}

window.addEventListener("beforeunload", (event) => {
  if (shown.drafts.size) event.preventDefault();
});
showMessage(null);
