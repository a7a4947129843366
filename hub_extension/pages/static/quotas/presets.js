/** Presets of jobs: those that the viewer may use or change, and the form in which one is defined. */

import { call, site } from "../site.js";
import { dataCells, dataTable } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { button, emptyState, submitButton } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";
import { formField, textField } from "../visuals/views/form_field.js";
import { refusalWords } from "./refusals.js";

const HEADS = ["preset", "of", "options", "about", "by", ""];
const OPTION = "options.";

export class Presets {
  /** @param changed called when there is something new to draw; `done`: called once a change was made */
  constructor(changed, done) {
    this.changed = changed;
    this.done = done;
    this.items = null;
    this.editor = null;
    this.asking = null;
    this.refusal = null;
    this.busy = false;
  }

  async read() {
    try {
      this.items = (await call("GET", "presets")).items;
      this.refusal = null;
    } catch (error) {
      this.refusal = error;
    }
    this.changed();
  }

  /** The section; `projects`: names of those whose presets the viewer may change. */
  draw(projects) {
    const { items } = this;
    if (items === null && this.refusal === null) return null;
    return h(
      "section",
      { key: "presets", class: "st-section", "data-testid": "presets-section" },
      h("h2", {}, "Presets of jobs"),
      items?.length === 0 &&
        emptyState("There are no presets.", "One gives the options of a job a name, for those who submit."),
      items?.length > 0 &&
        dataTable(
          "presets",
          HEADS,
          items.map((preset) => this.#row(preset)),
          { frame: "st-wide-table" },
        ),
      this.refusal && refusalWords(this.refusal, "presets-refusal"),
      this.editor === null
        ? button("preset-new", "New preset…", () => this.#edit(null, projects), {
            class: "st-button mt-2",
            disabled: this.busy,
          })
        : drawEditor(
            this.editor,
            projects,
            () => this.#save(),
            () => this.#close(),
          ),
    );
  }

  #row(preset) {
    const { name, project, text, about, by, obstacle } = preset;
    const refused = obstacle && h("p", { key: "obstacle", class: "st-problem mb-0" }, refusedWords(preset));
    const cells = [
      h("strong", {}, clean(name)),
      project === null ? "the pool" : clean(project),
      [h("span", { key: "text" }, clean(text)), refused],
      clean(about) || "–",
      clean(by),
      mayChange(preset) && this.#actions(preset),
    ];
    return h(
      "tr",
      { key: keyOf(preset), "data-testid": "preset" },
      dataCells(HEADS, cells, { options: "st-across", about: "st-across" }),
    );
  }

  #actions(preset) {
    const which = `preset ${clean(preset.name)} of ${preset.project === null ? "the pool" : clean(preset.project)}`;
    const props = (verb) => ({ disabled: this.busy, "aria-label": `${verb} the ${which}` });
    if (this.asking === keyOf(preset))
      return [
        button("preset-delete-yes", "Delete it", () => this.#remove(preset), props("Delete")),
        " ",
        button("preset-delete-no", "Keep it", () => this.#ask(null), props("Keep")),
      ];
    return [
      button("preset-edit", "Change…", () => this.#edit(preset), props("Change")),
      " ",
      button("preset-delete", "Delete…", () => this.#ask(keyOf(preset)), props("Delete")),
    ];
  }

  #ask(key) {
    this.asking = key;
    this.changed();
  }

  /** Opens the form for a preset, or for a new one of the first of the projects, or for admins of the pool. */
  async #edit(preset, projects = []) {
    await this.#run(async () => {
      const { fields } = await call("GET", "preset-form");
      this.editor = new PresetEditor(fields, preset, site.admin ? null : (projects[0] ?? null), this.changed);
    });
  }

  #close() {
    this.editor = null;
    this.changed();
  }

  async #save() {
    const { editor } = this;
    await this.#run(async () => {
      try {
        await call("PUT", `presets/${encodeURIComponent(editor.name.trim())}`, editor.body);
      } catch (error) {
        if (editor.takes(error)) return;
        throw error;
      }
      this.editor = null;
      await this.#changes();
    });
  }

  async #remove({ name, project }) {
    this.asking = null;
    const of = project === null ? "" : `?${new URLSearchParams({ project })}`;
    await this.#run(async () => {
      await call("DELETE", `presets/${encodeURIComponent(name)}${of}`);
      await this.#changes();
    });
  }

  async #changes() {
    await this.read();
    this.done();
  }

  async #run(work) {
    if (this.busy) return;
    Object.assign(this, { busy: true, refusal: null });
    this.changed();
    try {
      await work();
    } catch (error) {
      this.refusal = error;
    }
    this.busy = false;
    this.changed();
  }
}

/** The typed fields of a preset, as `formField` takes it, and the pool's answers about it. */
class PresetEditor {
  constructor(fields, preset, project, changed) {
    this.id = "st-preset";
    this.fields = fields;
    this.changed = changed;
    this.isNew = preset === null;
    this.name = preset?.name ?? "";
    this.about = preset?.about ?? "";
    this.project = preset === null ? project : preset.project;
    this.typed = Object.fromEntries(fields.map(({ name }) => [name, preset?.values[name] ?? ""]));
    this.own = new Set(fields.filter((field) => isOwn(field, this.typed[field.name])).map(({ name }) => name));
    const shown = new Set(fields.map(({ name }) => name));
    this.kept = Object.fromEntries(Object.entries(preset?.options ?? {}).filter(([name]) => !shown.has(name)));
    this.review = { problems: {} };
  }

  get body() {
    return { project: this.project, about: this.about, typed: this.typed, options: this.kept };
  }

  setOption(name, value, own = false) {
    this.typed[name] = value;
    this.own[own ? "add" : "delete"](name);
    this.set("review", { problems: { ...this.review.problems, [name]: "" } });
  }

  set(part, value) {
    this[part] = value;
    this.changed();
  }

  /** Shows a refusal at its field; returns whether there is such a one. */
  takes({ field, message }) {
    const name = field?.startsWith(OPTION) ? field.slice(OPTION.length) : field;
    if (!["name", "about", ...Object.keys(this.typed)].includes(name)) return false;
    this.set("review", { problems: { [name]: message } });
    return true;
  }
}

/** Whether a value is none of the choices of a field. */
function isOwn({ choices }, text) {
  return choices.length > 0 && choices.every(({ value }) => value !== text);
}

function drawEditor(editor, projects, save, close) {
  const submit = (event) => {
    event.preventDefault();
    return save();
  };
  const text = (name, label, help, more = {}) =>
    textField(editor, {
      name,
      label,
      help,
      value: editor[name],
      wrong: editor.review.problems[name],
      set: (value) => editor.set(name, value),
      ...more,
    });
  const owners = [
    ...(site.admin || editor.project === null ? [{ value: "", words: "the whole pool" }] : []),
    ...projects.map((name) => ({ value: name, words: clean(name) })),
  ];
  const [common, others] = [true, false].map((is) => editor.fields.filter((field) => field.common === is));
  const kept = Object.keys(editor.kept);
  return h(
    "form",
    { key: "editor", class: "st-form-inputs", novalidate: true, "data-testid": "preset-editor", on: { submit } },
    h("h3", { key: "title", class: "h6" }, editor.isNew ? "New preset" : `Change the preset ${clean(editor.name)}`),
    h(
      "p",
      { key: "what", class: "st-muted" },
      "It fills in the options that whoever submits a job leaves out. Jobs that were sent stay as they are.",
      kept.length > 0 && ` These stay as an administrator has set them: ${kept.map(clean).join(", ")}.`,
    ),
    h(
      "div",
      { key: "about", class: "st-form-grid" },
      editor.isNew && text("name", "Name", "One word, such as small.", { required: true }),
      editor.isNew &&
        text("project", "For jobs of", "Those of the projects inside it have it, too.", ownerField(editor, owners)),
      text("about", "About it", "A sentence for those who choose it."),
    ),
    h(
      "div",
      { key: "common", class: "st-form-grid" },
      common.map((field) => formField(editor, field)),
    ),
    h(
      "details",
      { key: "more", class: "st-form-more" },
      h("summary", { key: "summary" }, "More options", moreWords(editor, others)),
      h(
        "div",
        { key: "fields", class: "st-form-grid" },
        others.map((field) => formField(editor, field)),
      ),
    ),
    h(
      "div",
      { key: "buttons", class: "st-row-actions" },
      button("preset-close", "Discard", close),
      submitButton("preset-save", editor.isNew ? "Define it" : "Save"),
    ),
  );
}

/** How many of the options that are folded away are set, and how many are wrong. */
function moreWords({ typed, review }, fields) {
  const set = fields.filter(({ name }) => typed[name].trim()).length;
  const wrong = fields.filter(({ name }) => review.problems[name]).length;
  const words = [set && `${set} set`, wrong && `${wrong} to correct`].filter(Boolean).join(", ");
  return words && h("span", { key: "notes", class: wrong ? "st-field-wrong" : "st-muted" }, ` · ${words}`);
}

/** The choice of whose preset it is; that of the pool is null. */
function ownerField(editor, choices) {
  return { choices, value: editor.project ?? "", set: (value) => editor.set("project", value || null) };
}

function refusedWords({ project, name, obstacle }) {
  const of = project === null ? "" : ` of ${project}`;
  return clean(`A job${of} with ${name} alone would be refused now: ${obstacle}`);
}

function mayChange({ project }) {
  return project === null ? site.admin : site.administers(project);
}

function keyOf({ project, name }) {
  return `${project === null ? "" : `of ${project}`} ${name}`;
}
