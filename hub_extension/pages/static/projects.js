/** Projects and quotas, edited in place by admins, and the trail of who changed what. */

import { AuditTrail } from "./quotas/audit.js";
import { drawPeople } from "./quotas/people.js";
import { drawProjects, FIELDS } from "./quotas/project_table.js";
import { attempted, call, calmly, followEvents, oncePerFrame, showMessage, site } from "./site.js";
import { buildSum, drawSums, parsed, quotaLevels } from "./quotas/sums.js";
import { h, patch } from "./visuals/base/dom.js";
import { WhatIf } from "./quotas/what_if.js";

const NEW = "";
const PROJECT_NAME = /^[^\u0000-\u001f\u007f/]{1,64}$/;
const shown = { admin: null, drafts: new Map(), refusals: new Map(), asking: null, busy: new Set() };
const redraw = oncePerFrame(draw);
const reread = calmly(read, 0.3);
const trail = new AuditTrail(redraw, reread);
const whatIf = new WhatIf(redraw);

start();

async function start() {
  await read();
  followEvents({ admin: reread, again: reread });
}

async function read() {
  const admin = await attempted(() => call("GET", "admin"));
  if (admin) shown.admin = admin;
  redraw();
  if (site.admin) await trail.read();
}

/** What the fields hold now, typed or stored; texts that are no numbers count as unchanged. */
function edited() {
  const projects = shown.admin.projects.map((project) => ({ ...project, ...valuesOf(draftOf("project", project.name)) }));
  const typed = draftOf("project", NEW)?.texts;
  if (typed && Object.keys(typed).length) projects.push({ name: NEW, parent: null, quota: 0, build_quota: 0, ...valuesOf(draftOf("project", NEW)) });
  const people = shown.admin.people.map((person) => {
    const own = draftOf("person", person.name)?.texts.own_build_quota;
    const value = own === undefined ? person.own_build_quota : own.trim() === "" ? null : parsed(own);
    return { ...person, own_build_quota: value === undefined ? person.own_build_quota : value };
  });
  return { projects, people };
}

function valuesOf(draft) {
  const values = {};
  for (const [field, text] of Object.entries(draft?.texts ?? {})) {
    const value = FIELDS[field]?.read(text);
    if (value !== undefined) values[field] = value;
  }
  return values;
}

/** The typed changes of projects that are there, as they would be sent; none while one of them is no value. */
function edits() {
  const found = {};
  for (const { name } of shown.admin.projects) {
    const draft = draftOf("project", name);
    if (!draft) continue;
    const values = valuesOf(draft);
    if (Object.keys(values).length < Object.keys(draft.texts).length) return {};
    found[name] = values;
  }
  return found;
}

function draftOf(kind, name) {
  return shown.drafts.get(`${kind} ${name}`);
}

const editing = {
  draft: draftOf,
  refusal: (kind, name) => shown.refusals.get(`${kind} ${name}`),
  asking: (key) => shown.asking === key,
  busy: (key) => shown.busy.has(key),

  type(kind, name, field, text, stored, version) {
    const key = `${kind} ${name}`;
    const draft = shown.drafts.get(key) ?? { texts: {}, version };
    if (text === stored) delete draft.texts[field];
    else draft.texts[field] = text;
    if (Object.keys(draft.texts).length) shown.drafts.set(key, draft);
    else shown.drafts.delete(key);
    shown.refusals.delete(key);
    redraw();
  },

  discard(kind, name) {
    shown.drafts.delete(`${kind} ${name}`);
    shown.refusals.delete(`${kind} ${name}`);
    redraw();
  },

  ask(key) {
    shown.asking = key;
    redraw();
  },

  /** Runs a change; a refusal shows where the change was made. */
  async change(kind, name, work) {
    const key = `${kind} ${name}`;
    if (shown.busy.has(key)) return false;
    shown.busy.add(key);
    shown.refusals.delete(key);
    redraw();
    try {
      await work();
      shown.drafts.delete(key);
      shown.refusals.clear();
      return true;
    } catch (error) {
      shown.refusals.set(key, error);
      return false;
    } finally {
      shown.busy.delete(key);
      shown.asking = null;
      await read();
      if (shown.refusals.get(key)?.code === "changed") renewVersion(kind, name);
    }
  },

  saveProject(name) {
    const draft = draftOf("project", name);
    if (!draft) return Promise.resolve(true);
    return editing.change("project", name, async () => {
      const body = { ...readAll(draft.texts) };
      if (name === NEW) {
        await call("PUT", `projects/${encodeURIComponent(newName(draft.texts.name))}`, body);
      } else {
        await call("PATCH", `projects/${encodeURIComponent(name)}`, { ...body, version: draft.version });
      }
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

function gainOf(project) {
  const values = { ...project, ...valuesOf(draftOf("project", project.name)) };
  return (values.quota ?? Infinity) - (project.quota ?? 0) + values.build_quota - project.build_quota;
}

function renewVersion(kind, name) {
  const draft = draftOf(kind, name);
  const project = shown.admin.projects.find((known) => known.name === name);
  if (draft && project) draft.version = project.version;
}

function newName(text) {
  const name = (text ?? "").trim();
  if (!name) throw Object.assign(new Error("A project needs a name."), { field: "name" });
  if (PROJECT_NAME.test(name)) return name;
  throw Object.assign(new Error(`The name is “${name}”; expected one of at most 64 characters without “/” and control characters.`), { field: "name" });
}

function readAll(texts) {
  const values = {};
  for (const [field, text] of Object.entries(texts)) {
    if (!(field in FIELDS)) continue;
    const value = FIELDS[field].read(text);
    if (value === undefined) throw Object.assign(new Error(`${FIELDS[field].title} is “${text}”; expected ${FIELDS[field].expected}.`), { field });
    values[field] = value;
  }
  return values;
}

function draw() {
  if (!shown.admin) return;
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  const { projects, people } = edited();
  const levels = quotaLevels(projects, shown.admin.sums.train_gpus);
  const sums = { ...shown.admin.sums, quota_sum: levels.get(null).total, build_quota_sum: buildSum(people, projects) };
  whatIf.consider([...levels.values()].some(({ total, room }) => total > room) ? {} : edits());
  const changed = shown.admin.projects.filter((project) => draftOf("project", project.name)).length;
  patch(
    page,
    site.admin && drawSums(sums),
    h(
      "section",
      { key: "projects", class: "st-section" },
      h("h2", {}, "Projects"),
      drawProjects(shown.admin.projects, levels, editing),
      whatIf.draw(),
      changed > 1 && h("p", { key: "all" }, h("button", { type: "button", class: "st-button st-primary", "data-testid": "save-all", on: { click: editing.saveAll } }, `Save all ${changed} changes`)),
    ),
    h("section", { key: "people", class: "st-section" }, h("h2", {}, "People"), drawPeople(shown.admin, editing)),
    site.admin && h("section", { key: "audit", class: "st-section" }, h("h2", {}, "Who changed what"), trail.draw()),
  );
}

window.addEventListener("beforeunload", (event) => {
  if (shown.drafts.size) event.preventDefault();
});
showMessage(null);
