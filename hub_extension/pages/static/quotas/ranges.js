/** The ranges of a project, which bound the requests of its jobs: shown in a line, edited in place. */

import { call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button } from "../visuals/base/glyphs.js";
import { binarySize, clean, given } from "../visuals/base/words.js";
import { parsed, WHOLE } from "./sums.js";

const UNITS = { d: 86400, h: 3600, m: 60, s: 1 };

/** The fields of the ranges with their parser and format; `read` returns undefined for an invalid text. */
const FIELDS = {
  min_priority: { title: "lowest job priority", expected: WHOLE, read: (text) => parsed(text), show: String },
  max_priority: { title: "highest job priority", expected: WHOLE, read: (text) => parsed(text), show: String },
  max_gpus: {
    title: "GPUs per job",
    expected: "a whole number from 1, or nothing for any",
    read: (text) => optional(text, parsed),
    show: shown,
    placeholder: "any",
  },
  max_cpus: {
    title: "cores per job",
    expected: "a number above 0, or nothing for any",
    read: (text) => optional(text, cores),
    show: shown,
    placeholder: "any",
  },
  max_memory: {
    title: "memory per job",
    expected: "an amount such as 64Gi or 64GB, or nothing for any",
    read: (text) => optional(text, memory),
    show: (value) => (value === null ? "" : memoryText(value)),
    placeholder: "any",
  },
  max_time_limit: {
    title: "time per job",
    expected: "a duration such as 2h or 1d, or nothing for any",
    read: (text) => optional(text, seconds),
    show: (value) => (value === null ? "" : duration(value)),
    placeholder: "any",
  },
  jobs_without_gpus: {
    title: "jobs without GPUs at a time",
    expected: `${WHOLE}, or nothing for that of the project above`,
    read: (text) => optional(text, parsed),
    show: shown,
    placeholder: "as above",
  },
  images: {
    title: "images",
    expected: "names or patterns with commas between, or nothing for any",
    read: (text) => optional(text, names),
    show: (value) => (value ?? []).join(", "),
    placeholder: "any",
  },
};

function shown(value) {
  return value === null ? "" : String(value);
}

function optional(text, read) {
  return text.trim() === "" ? null : read(text);
}

function cores(text) {
  const number = /^\d{1,9}(?:\.\d{1,3})?$/.test(text.trim()) ? Number(text) : 0;
  return number > 0 ? number : undefined;
}

/** The bytes of an amount, parsed as the pool does: 64Gi, 64 GB, 512M. */
function memory(text) {
  const found = /^(\d{1,15}(?:\.\d{1,9})?)\s*(?:([kKMGT])(i?))?B?$/.exec(text.trim());
  if (!found) return undefined;
  const power = found[2] ? "KMGT".indexOf(found[2].toUpperCase()) + 1 : 0;
  return Math.round(Number(found[1]) * (found[3] ? 1024 : 1000) ** power) || undefined;
}

function memoryText(bytes) {
  const [unit, length] = [
    ["Ti", 2 ** 40],
    ["Gi", 2 ** 30],
    ["Mi", 2 ** 20],
    ["Ki", 1024],
  ].find(([, size]) => bytes % size === 0) ?? ["", 1];
  return `${bytes / length}${unit}`;
}

function seconds(text) {
  const found = /^(\d{1,9}(?:\.\d{1,3})?)\s*([dhms]?)$/.exec(text.trim());
  return found ? Number(found[1]) * UNITS[found[2] || "s"] : undefined;
}

function duration(value) {
  const [unit, length] = Object.entries(UNITS).find(([, size]) => value % size === 0) ?? ["s", 1];
  return `${value / length}${unit}`;
}

function names(text) {
  return text
    .split(",")
    .map((name) => name.trim())
    .filter(Boolean);
}

/** The ranges of one project, in a fold to edit them. */
export function drawRanges(project, editing, refusalWords, mayChange) {
  const { name, ranges } = project;
  const draft = editing.draft("ranges", name);
  const refusal = editing.refusal("ranges", name);
  const open = editing.asking(`ranges ${name}`) || Boolean(draft) || Boolean(refusal);
  if (!open) {
    return h(
      "div",
      { key: "ranges", class: "st-chips" },
      h("span", { key: "title", class: "st-muted" }, "its jobs"),
      h("span", { key: "words", "data-testid": `ranges-${name}` }, rangeWords(ranges)),
      mayChange &&
        button(`ranges-edit-${name}`, "Change…", () => editing.ask(`ranges ${name}`), {
          "aria-label": `Change what jobs of ${clean(name)} may ask for`,
        }),
    );
  }
  const save = () => {
    const typed = editing.draft("ranges", name);
    if (typed)
      editing.change("ranges", name, () =>
        call("PATCH", `projects/${encodeURIComponent(name)}`, {
          ranges: { ...ranges, ...read(typed.texts) },
          version: typed.version,
        }),
      );
  };
  const discard = () => {
    editing.ask(null);
    editing.discard("ranges", name);
  };
  const keys = (event) => {
    if (event.key === "Enter") save();
    if (event.key === "Escape") discard();
  };
  return h(
    "div",
    {
      key: "ranges",
      class: "st-chips",
      role: "group",
      "aria-label": `What jobs of ${clean(name)} may ask for`,
      on: { keydown: keys },
    },
    Object.entries(FIELDS).map(([field, known]) => drawField(project, field, known, draft, editing)),
    h(
      "button",
      { key: "keep", type: "button", class: "st-button", on: { click: discard } },
      draft ? "Discard" : "Close",
    ),
    draft &&
      button(`ranges-save-${name}`, "Save", save, {
        class: "st-button st-primary",
        disabled: editing.busy(`ranges ${name}`),
      }),
    refusal && refusalWords(refusal, `ranges-refusal-${name}`),
  );
}

function drawField({ name, ranges, version }, field, known, draft, editing) {
  const stored = known.show(ranges[field]);
  const typed = draft?.texts[field];
  return h(
    "label",
    { key: field, class: "st-inline" },
    h("span", { key: "title", class: "st-muted" }, known.title),
    h("input", {
      key: "field",
      type: "text",
      size: field === "images" ? 24 : 7,
      value: typed ?? stored,
      placeholder: known.placeholder ?? null,
      autocomplete: "off",
      "data-changed": String(typed !== undefined),
      "data-testid": `ranges-${field}-${name}`,
      on: { input: (event) => editing.type("ranges", name, field, event.target.value, stored, version) },
    }),
  );
}

function read(texts) {
  const values = {};
  for (const [field, text] of Object.entries(texts)) {
    const known = FIELDS[field];
    const value = known.read(text);
    if (value === undefined)
      throw Object.assign(new Error(`The ${known.title} is ${given(text)}; expected ${known.expected}.`), {
        field: "ranges",
      });
    values[field] = value;
  }
  return values;
}

/** The ranges in words. */
export function rangeWords(ranges) {
  const parts = [`priority ${ranges.min_priority} to ${ranges.max_priority}`];
  if (ranges.max_gpus !== null) parts.push(`up to ${ranges.max_gpus} ${ranges.max_gpus === 1 ? "GPU" : "GPUs"}`);
  if (ranges.max_cpus !== null) parts.push(`up to ${ranges.max_cpus} ${ranges.max_cpus === 1 ? "core" : "cores"}`);
  if (ranges.max_memory !== null) parts.push(`up to ${binarySize(ranges.max_memory)} of memory`);
  if (ranges.max_time_limit !== null) parts.push(`up to ${duration(ranges.max_time_limit)}`);
  if (ranges.images !== null) parts.push(`images ${ranges.images.map(clean).join(", ")}`);
  if (ranges.jobs_without_gpus !== null) parts.push(`${ranges.jobs_without_gpus} without GPUs at a time`);
  return parts.join(", ");
}
