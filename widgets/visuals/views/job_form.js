/** The form to submit a job: the work, its options, the estimate, and the reason if it cannot be submitted. */

import { h, patch } from "../base/dom.js";
import { environmentFacts, environmentSummary } from "../base/environment.js";
import { emptyState, simulatedMark, stage, submitButton } from "../base/glyphs.js";
import { clean } from "../base/words.js";
import { formEstimate } from "./form_estimate.js";
import { formField, textField } from "./form_field.js";

const KINDS = { function: "Function", command: "Command", notebook: "Notebook" };
const ANY_VALUE = "a value as in Python, or a variable";

/**
 * Draws the form.
 * @param session `FormSession`, with the typed values and the answers about them
 * @param data `project`: ProjectView of the selected project, or null; `scale`: GPUs across its bar; `away`: why there
 *   is no contact with the pool, or null
 */
export function renderJobForm(element, session, data = {}) {
  stage(element, "st-card");
  element.classList.add("st-form");
  element.dataset.testid = "job-form";
  const simulated = Boolean(session.form?.person.simulated);
  patch(
    element,
    h(
      "header",
      { key: "header" },
      h("h3", { key: "title", class: "st-title" }, "New job"),
      h("span", { key: "about" }, simulatedMark(simulated)),
    ),
    session.form === null
      ? waiting(session)
      : session.form.person.projects.length
        ? whole(session, data)
        : emptyState("You are in no project yet.", "An admin puts you into one; then you can submit jobs here."),
  );
}

function waiting({ problem }) {
  return h(
    "p",
    { key: "waiting", class: "st-muted", role: "status", "data-testid": "form-waiting" },
    clean(problem ?? "Connecting to the pool…"),
  );
}

/** The whole form. Enter in a field does not submit; only the button does. */
function whole(session, data) {
  const submit = (event) => {
    event.preventDefault();
    return session.submit();
  };
  const keydown = (event) => event.key === "Enter" && event.target.tagName === "INPUT" && event.preventDefault();
  const fields = optionFields(session);
  return h(
    "form",
    {
      key: "form",
      class: "st-form-parts",
      novalidate: true,
      "aria-label": "New job",
      on: { submit, keydown, focusin: () => session.use() },
    },
    h(
      "div",
      { key: "inputs", class: "st-form-inputs" },
      kinds(session),
      h(
        "div",
        { key: `what ${session.kind}`, class: "st-form-grid", "data-testid": "form-what" },
        { function: callFields, command: commandField, notebook: notebookFields }[session.kind](session),
      ),
      h(
        "div",
        { key: "common", class: "st-form-grid" },
        fields.filter(({ common }) => common).map((field) => formField(session, field)),
      ),
      moreOptions(
        session,
        fields.filter(({ common }) => !common),
      ),
      environmentPart(session),
    ),
    formEstimate(session, data),
    footer(session, data),
  );
}

/** The fields of the options, as the chosen project and preset have them. */
export function optionFields(session) {
  return session.form.fields.flatMap((field) => shownField(session, field));
}

/** The fields of the parameters of the chosen function or notebook. */
export function parameterFields(session) {
  return session.parameters.map((parameter) => argument(session, parameter));
}

/** A field as the chosen project and preset have it; none for presets where the project has none. */
function shownField({ presets, preset }, field) {
  if (field.name === "preset") {
    const choices = presets.map(({ name, words }) => ({ value: name, words }));
    return choices.length ? [{ ...field, choices: [...field.choices, ...choices] }] : [];
  }
  if (field.kind !== "variables" || !preset?.variables.length) return [field];
  return [{ ...field, help: `${field.help} Those of the preset are added: ${preset.variables.join(", ")}.` }];
}

function kinds(session) {
  return h(
    "fieldset",
    { key: "kinds", class: "st-choice" },
    h("legend", { key: "legend" }, "What to run"),
    Object.entries(KINDS).map(([kind, words]) =>
      h(
        "label",
        { key: kind },
        h("input", {
          key: "input",
          type: "radio",
          name: `${session.id}-kind`,
          value: kind,
          checked: session.kind === kind,
          on: { change: () => session.setKind(kind) },
        }),
        h("span", { key: "words" }, words),
      ),
    ),
  );
}

function callFields(session) {
  const names = (session.functions ?? []).map(({ name }) => ({ value: name, words: name }));
  const { callee } = session;
  const chosen = {
    name: "function",
    label: "Function",
    help: callee?.about || "A function of this notebook, or of a file beside it.",
    choices: names,
    value: session.work.function,
    wide: true,
    set: (value) => session.setWork("function", value),
  };
  return [
    textField(session, chosen),
    parameterFields(session),
    callee?.rest && further(session),
    !callee?.rest &&
      session.faults["*"] &&
      h("p", { key: "misfit", class: "st-field-wrong st-across", role: "alert" }, clean(session.faults["*"])),
  ];
}

function argument(session, parameter) {
  const { name, required } = parameter;
  return textField(session, {
    name: `argument-${name}`,
    label: name,
    code: true,
    help: [parameter.type, required ? "required" : "", required ? ANY_VALUE : ""].filter(Boolean).join(" · "),
    value: session.given[name] ?? "",
    placeholder: required ? "" : parameter.default,
    required,
    wrong: session.faultOf(name),
    set: (value) => session.setArgument(name, value),
  });
}

function further(session) {
  return textField(session, {
    name: "argument-further",
    label: "Further arguments",
    help: "As in a call.",
    value: session.given["*"] ?? "",
    placeholder: "0.1, epochs=30",
    wrong: session.faultOf("*"),
    wide: true,
    set: (value) => session.setArgument("*", value),
  });
}

function commandField(session) {
  return textField(session, {
    name: "command",
    label: "Command",
    help: "It runs in the directory of this notebook. A script that it names is sent as it is now.",
    value: session.work.command,
    placeholder: "python train.py --epochs 30",
    wide: true,
    code: true,
    set: (value) => session.setWork("command", value),
  });
}

function notebookFields(session) {
  const chosen = {
    name: "notebook",
    label: "Notebook",
    help: "It is executed as it was last saved, and the executed copy is kept.",
    choices: session.form.notebooks.map((name) => ({ value: name, words: name })),
    value: session.work.notebook,
    wide: true,
    set: (value) => session.setWork("notebook", value),
  };
  return [textField(session, chosen), parameterFields(session)];
}

/** The fold of further options, with further properties of it. */
export function moreOptions(session, fields, props = {}) {
  const wrong = fields.filter(({ name }) => session.review.problems[name]).length;
  const set = fields.filter(({ name, value }) => session.typed[name].trim() !== value).length;
  const notes = [set ? `${set} set` : "", wrong ? `${wrong} to correct` : ""].filter(Boolean).join(", ");
  return h(
    "details",
    { key: "more", class: "st-form-more", "data-testid": "form-more", ...props },
    h(
      "summary",
      { key: "summary" },
      "More options",
      notes && h("span", { key: "notes", class: wrong ? "st-field-wrong" : "st-muted" }, ` · ${notes}`),
    ),
    h(
      "div",
      { key: "fields", class: "st-form-grid" },
      fields.map((field) => formField(session, field)),
    ),
  );
}

/** The environment of the job: a summary that opens the rest; missing packages show at once. */
function environmentPart({ described: { value, problem } }) {
  if (!value)
    return (
      problem &&
      h(
        "p",
        { key: "environment", class: "st-muted st-form-environment", "data-testid": "form-environment" },
        clean(problem),
      )
    );
  const { environment, image } = value;
  const missing = clean(environment.missing_text);
  return h(
    "details",
    { key: "environment", class: "st-form-more st-form-environment", "data-testid": "form-environment" },
    h(
      "summary",
      { key: "summary" },
      "Runs with ",
      h("span", { key: "short", class: "st-muted" }, environmentSummary(environment)),
      missing && h("span", { key: "missing", class: "st-field-wrong", role: "status" }, ` · ${missing}`),
    ),
    environmentFacts(environment, image),
  );
}

function footer(session, { away }) {
  const blocked = away ?? session.blocked;
  const { notice, sending } = session;
  const words = sending ? "Submitting…" : (blocked ?? (notice ? notice.words : ""));
  const classes = notice && !notice.good && !blocked && !sending ? "st-notice st-field-wrong" : "st-notice";
  return h(
    "footer",
    { key: "footer" },
    h(
      "span",
      { key: "reason", id: `${session.id}-reason`, class: classes, role: "status", "data-testid": "form-reason" },
      clean(words),
    ),
    submitButton("form-submit", "Submit", {
      disabled: blocked !== null || sending,
      "aria-describedby": `${session.id}-reason`,
    }),
  );
}
