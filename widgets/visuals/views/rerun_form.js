/** The form to edit a job before a rerun or a fork, and the card's lines about the job's other runs. */

import { h } from "../base/dom.js";
import { button, submitButton } from "../base/glyphs.js";
import { clean, count } from "../base/words.js";
import { formField } from "./form_field.js";

const KEPT = "Same code, files and variables as the first run. Variables that you type are added.";

/** The run that a job repeats and the differences, with a link to it if `pageOf` returns one. */
export function rerunLine({ rerun }, pageOf, target) {
  return (
    rerun &&
    runLine(
      "first",
      rerun,
      { href: rerun.deleted ? null : pageOf?.(rerun.job), target },
      rerun.fork ? "Its parent" : "First run",
    )
  );
}

/** The outcome of a job's test run, with a link to it if `pageOf` returns one. */
export function testLine({ test_run: test }, pageOf, target) {
  return test && runLine("test", test, { href: pageOf?.(test.job), target }, "Its page");
}

/** Returns the line of a job submitted by another job's program, with a link if pages of jobs are known. */
export function submitterLine({ submitted_by: job }, pageOf, target) {
  return (
    job &&
    runLine(
      "submitter",
      { text: `Submitted by the program of job ${job}.` },
      { href: pageOf?.(job), target },
      "Submitter",
    )
  );
}

function runLine(which, { text }, link, words) {
  const there = link.href && [" ", h("a", { key: "run", ...link, "data-testid": `${which}-run` }, words)];
  return h("p", { key: `${which}-run`, class: "st-muted st-rerun", "data-testid": `job-${which}` }, clean(text), there);
}

/** The words of the form: what it does, what stays, and its button before and after a click. */
function wordsOf({ checkpoint, form }) {
  const copying = "Copying the checkpoint…";
  if (checkpoint) {
    const from = `from ${clean(checkpoint.words)}`;
    return {
      about: `Fork ${from}`,
      kept: `A new job continues ${from}. ${KEPT}`,
      send: `Fork ${from}`,
      sending: copying,
    };
  }
  const again = { about: "Edit and run again", kept: KEPT, send: "Run again", sending: "Submitting…" };
  if (!form.continues) return again;
  return { ...again, kept: `A new job continues from ${clean(form.continues)} once more. ${KEPT}`, sending: copying };
}

/** The button that opens the form to run a fork from the start. */
export function fromStartButton(editor) {
  return button("rerun-from-start", "Run from the start…", () => editor.open(null, true));
}

function changedWords(own, options) {
  const parts = [own && count(own, "argument"), options && count(options, "option")].filter(Boolean);
  return parts.length ? `${parts.join(" and ")} changed` : "Nothing changed yet";
}

function argumentField(editor, field) {
  if (!field.removable) return formField(editor, field);
  const label = clean(field.label);
  if (editor.removed.has(field.name))
    return h(
      "div",
      { key: field.name, class: "st-field" },
      h("span", { key: "label" }, `${label} is left out`),
      button(`keep-${field.name}`, `Keep ${label}`, () => editor.setRemoved(field.name, false)),
    );
  return h(
    "div",
    { key: field.name, class: "st-field" },
    formField(editor, field),
    button(`remove-${field.name}`, `Leave out ${label}`, () => editor.setRemoved(field.name, true)),
  );
}

function addedOption(editor, { name, value }, place) {
  const input = (part, text, label, placeholder) =>
    h("input", {
      key: part,
      type: "text",
      class: "st-input st-code",
      value: text,
      placeholder,
      "aria-label": label,
      "data-testid": `added-${part}`,
      on: { input: (event) => editor.setAdded(place, { [part]: event.target.value }) },
    });
  return h(
    "div",
    { key: `added ${place}`, class: "st-field" },
    input("name", name, "Added option", "--decay"),
    input("value", value, "Its value", "empty for a flag"),
    button("added-drop", "Leave out this option", () => editor.dropAdded(place)),
  );
}

/** Draws the form of a `RerunEditor`; nothing while it is closed. */
export function rerunForm(editor) {
  if (!editor?.isOpen) return null;
  if (editor.form === null)
    return h("p", { key: "editor", class: "st-muted", role: "status" }, "Loading the options of the first run…");
  const { fields } = editor.form;
  const words = wordsOf(editor);
  const own = fields.filter(({ argument }) => argument);
  const common = fields.filter((field) => field.common && !field.argument);
  const others = fields.filter((field) => !field.common);
  const wrong = others.filter(({ name }) => editor.review.problems[name]).length;
  const different = Object.keys(editor.differences).length;
  const changed = Object.keys(editor.changedArguments).length;
  const submit = (event) => {
    event.preventDefault();
    return editor.send();
  };
  const keydown = (event) => event.key === "Enter" && event.target.tagName === "INPUT" && event.preventDefault();
  return h(
    "form",
    {
      key: "editor",
      class: "st-rerun-form",
      novalidate: true,
      "aria-label": words.about,
      "data-testid": "rerun-form",
      on: { submit, keydown },
    },
    h("p", { key: "kept", class: "st-muted", "data-testid": "rerun-kept" }, words.kept),
    editor.form.continues && fromStartButton(editor),
    (own.length > 0 || editor.form.takes_options) &&
      h(
        "fieldset",
        { key: "arguments", class: "st-form-arguments", "data-testid": "rerun-arguments" },
        h("legend", { key: "legend" }, "Arguments"),
        h(
          "div",
          { key: "fields", class: "st-form-grid" },
          own.map((field) => argumentField(editor, field)),
          editor.added.map((option, place) => addedOption(editor, option, place)),
        ),
        editor.form.takes_options && button("add-option", "Add an option", () => editor.addOption()),
      ),
    h(
      "div",
      { key: "common", class: "st-form-grid" },
      common.map((field) => formField(editor, field)),
    ),
    h(
      "details",
      { key: "more", class: "st-form-more", "data-testid": "rerun-more" },
      h(
        "summary",
        { key: "summary" },
        "More options",
        wrong > 0 && h("span", { key: "wrong", class: "st-field-wrong" }, ` · ${wrong} to correct`),
      ),
      h(
        "div",
        { key: "fields", class: "st-form-grid" },
        others.map((field) => formField(editor, field)),
      ),
    ),
    h(
      "footer",
      { key: "footer" },
      h(
        "span",
        {
          key: "notice",
          class: editor.notice ? "st-notice st-field-wrong" : "st-notice st-muted",
          role: "status",
          "data-testid": "rerun-notice",
        },
        clean(editor.notice ?? changedWords(changed, different)),
      ),
      h(
        "span",
        { key: "buttons", class: "st-form-buttons" },
        button("rerun-close", "Close", () => editor.close()),
        submitButton("rerun-send", editor.sending ? words.sending : words.send, { disabled: editor.sending }),
      ),
    ),
  );
}
