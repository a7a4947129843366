/** The fields of a project, one for each GPU type if the pool has several, and their combined values. */

import { clean } from "../visuals/base/words.js";
import { parsed, WHOLE } from "./sums.js";

const PLAIN = {
  parent: {
    title: "Parent",
    label: "parent",
    hint: "The project whose share this one divides",
    expected: "a project or none",
    start: "",
    read: (text) => (text === "" ? null : text),
    show: (value) => value ?? "",
  },
  quota: {
    title: "Quota",
    label: "quota",
    hint: "Train GPUs that are always theirs on demand",
    expected: `${WHOLE}, or the word unlimited`,
    start: "0",
    read: (text) => parsed(text, "unlimited"),
    show: (value) => (value === null ? "unlimited" : String(value)),
  },
  limit: {
    title: "Limit",
    label: "limit",
    hint: "The most train GPUs they may ever hold",
    expected: `${WHOLE}, or nothing for no limit`,
    start: "",
    read: (text) => (text.trim() === "" ? null : parsed(text, "none")),
    show: (value) => (value === null ? "" : String(value)),
    placeholder: "none",
  },
  weight: {
    title: "Weight",
    label: "weight",
    hint: "Their part of what others leave idle",
    expected: "a number from 0 to 1000000",
    start: "1",
    read: readWeight,
    show: String,
  },
  priority: {
    title: "Priority",
    label: "priority",
    hint: "Who is offered idle GPUs first",
    expected: WHOLE,
    start: "100",
    read: (text) => parsed(text),
    show: String,
  },
  build_quota: {
    title: "Build quota",
    label: "build",
    hint: "GPUs of each member for notebooks",
    expected: WHOLE,
    start: "0",
    read: (text) => parsed(text),
    show: String,
  },
};

function readWeight(text) {
  const words = text.trim();
  return /^\d{1,7}(\.\d{1,6})?$/.test(words) ? Number(words) : undefined;
}

/** The GPU types of an admin's view: those of train and of build GPUs; none where there is one type. */
export function typesOf(sums) {
  return { train: Object.keys(sums.by_type), build: Object.keys(sums.build_by_type) };
}

/** The fields by key. A field of one type has the `type`, and the `name` under which the table by type is sent. */
export function fieldsOf(types) {
  const found = {};
  for (const [name, field] of Object.entries(PLAIN)) {
    const of = name === "quota" || name === "limit" ? types.train : name === "build_quota" ? types.build : [];
    if (!of.length) found[name] = { ...field, name, stored: (project) => project[name] };
    for (const type of of) {
      const stored = (project) => (name === "build_quota" ? project.build_by_type[type] : project.by_type[type][name]);
      found[`${name} ${type}`] = {
        ...field,
        name,
        type,
        title: `${field.title} ${clean(type)}`,
        label: `${field.label}-${type}`,
        stored,
      };
    }
  }
  return found;
}

/** The values of typed texts in the form of the API: a table has the numbers of all types. */
export function bodyOf(values, project, fields) {
  const body = {};
  for (const key of Object.keys(values)) {
    const { name, type } = fields[key];
    if (type === undefined) body[name] = values[key];
    else
      body[name] ??= Object.fromEntries(
        Object.entries(fields)
          .filter(([, field]) => field.name === name)
          .map(([other, field]) => [field.type, other in values ? values[other] : storedOrStart(field, project)]),
      );
  }
  return body;
}

function storedOrStart(field, project) {
  return project ? field.stored(project) : field.read(field.start);
}

/** The project with typed values in place of the stored ones. */
export function projectWith(project, values, fields) {
  const changed = {
    ...project,
    by_type: structuredClone(project.by_type ?? {}),
    build_by_type: { ...project.build_by_type },
  };
  for (const [key, value] of Object.entries(values)) {
    const { name, type } = fields[key];
    if (type === undefined) changed[name] = value;
    else if (name === "build_quota") changed.build_by_type[type] = value;
    else (changed.by_type[type] ??= { quota: 0, limit: null })[name] = value;
  }
  return changed;
}

/** A project with the quotas that admins have set, which edits change, and those of now, by bookings, beside them. */
export function asSet(project) {
  const byType = Object.entries(project.by_type).map(([type, of]) => [
    type,
    { ...of, quota: project.set_by_type[type], present_quota: of.quota },
  ]);
  return { ...project, quota: project.set_quota, present_quota: project.quota, by_type: Object.fromEntries(byType) };
}

/** The projects with the numbers of one type as plain numbers; unchanged if the type is null. */
export function projectsOfType(projects, type) {
  return type === null
    ? projects
    : projects.map((project) => ({ ...project, ...(project.by_type[type] ?? { quota: 0, limit: null }) }));
}
