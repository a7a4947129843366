/** The forms with which jobs are put on hold, and with which what they ask for is changed. */

import { h } from "../base/dom.js";
import { focusOnce } from "../base/focus.js";
import { button, submitButton } from "../base/glyphs.js";
import { clean, count } from "../base/words.js";

const OPTIONS = [
  ["priority", "Priority", "train, high, critical or a number"],
  ["time_limit", "Time limit", "such as 2h, or none"],
  ["workers", "Workers", "a number"],
  ["min_workers", "Fewest workers", "a number, or none for all"],
];
const NONE = "none";
const HOLD_LABELS = { reason: "Reason, which everyone who sees it reads" };
const EDIT_LABELS = { ...Object.fromEntries(OPTIONS), project: "Project", reason: "Reason, for the audit trail" };

/**
 * The form of an open `Intervention`.
 * @param jobs the jobs that it is about
 * @param projects the names of the projects that a job can be moved to
 */
export function interventionForm(intervention, jobs, projects) {
  const { what, busy, submit, close } = intervention;
  const about = jobs.length === 1 ? `“${clean(jobs[0].name) || jobs[0].id}”` : count(jobs.length, "job");
  const send = (event) => {
    event.preventDefault();
    return submit(what === "hold" ? holdBody(event.target) : editBody(event.target));
  };
  const keydown = (event) => event.key === "Escape" && close();
  return h(
    "form",
    {
      key: `intervention ${what}`,
      class: "st-intervention",
      "aria-label": what === "hold" ? `Put ${about} on hold` : `Edit ${about}`,
      "data-lm-suppress-shortcuts": "true",
      "data-testid": "intervention",
      on: { submit: send, keydown },
    },
    what === "hold" ? holdFields(intervention, about, jobs) : editFields(intervention, about, jobs, projects),
    problemLine(intervention),
    h(
      "div",
      { key: "buttons", class: "st-intervention-buttons" },
      button("intervention-close", "Not now", close),
      submitButton("intervention-send", what === "hold" ? "Put on hold" : "Save", { disabled: busy }),
    ),
  );
}

/** The refusal; only the field's label where the reason is beside a field. */
function problemLine({ what, problem, field }) {
  if (!problem) return null;
  const label = (what === "hold" ? HOLD_LABELS : EDIT_LABELS)[field];
  const words = label ? `Correct first: ${label}.` : clean(problem);
  const props = { class: "st-notice st-field-wrong", role: label ? "status" : "alert" };
  return h("p", { key: "problem", ...props, "data-testid": "intervention-problem" }, words);
}

function holdFields(intervention, about, jobs) {
  const runs = jobs.some(({ state }) => state === "running" || state === "starting");
  const [ask, them] = jobs.length === 1 ? ["It asks", "it"] : ["They ask", "them"];
  return [
    h(
      "p",
      { key: "words", class: "st-muted" },
      `Put ${about} on hold? ${ask} for no GPUs until an administrator releases ${them}.`,
    ),
    field(intervention, "reason", HOLD_LABELS.reason, "", { required: true, maxlength: 500, hook: focusOnce }),
    runs &&
      h(
        "label",
        { key: "finish", class: "st-check" },
        h("input", { type: "checkbox", name: "finish", "data-testid": "intervention-finish" }),
        " Let what runs finish, instead of pausing it",
      ),
  ];
}

function editFields(intervention, about, jobs, projects) {
  const [first] = jobs;
  const options = first.options ?? {};
  const one = jobs.length === 1;
  return [
    h(
      "p",
      { key: "words", class: "st-muted" },
      `Edit ${about}: an empty field stays as it is. Age and checkpoints are kept.`,
    ),
    h(
      "div",
      { key: "fields", class: "st-form-grid" },
      OPTIONS.map(([name, label, expected], at) =>
        field(intervention, name, label, one ? shownOption(name, options[name]) || expected : expected, {
          title: expected,
          hook: at === 0 ? focusOnce : null,
        }),
      ),
      labelled(intervention, "project", EDIT_LABELS.project, (props) =>
        h(
          "select",
          props,
          h("option", { key: "stays", value: "" }, one ? `${clean(first.project)} (stays)` : "stays"),
          projects
            .filter((name) => !one || name !== first.project)
            .map((name) => h("option", { key: `is ${name}`, value: name }, clean(name))),
        ),
      ),
      field(intervention, "reason", EDIT_LABELS.reason, "", { maxlength: 500 }),
    ),
  ];
}

function field(intervention, name, label, placeholder, more = {}) {
  return labelled(intervention, name, label, (props) =>
    h("input", { ...props, type: "text", placeholder, autocomplete: "off", ...more }),
  );
}

/** A field with its label, and the reason if it was refused; `draw(props)` returns the element for its value. */
function labelled(intervention, name, label, draw) {
  const id = `${intervention.id}-${name}`;
  const wrong = intervention.field === name ? clean(intervention.problem) : "";
  const element = draw({
    key: "input",
    id,
    class: "st-input",
    name,
    "aria-invalid": wrong ? "true" : null,
    "aria-describedby": wrong ? `${id}-wrong` : null,
    "data-testid": `intervention-${name}`,
  });
  const reason = { id: `${id}-wrong`, class: "st-field-wrong", role: "alert" };
  return h(
    "div",
    { key: name, class: "st-field" },
    h("label", { key: "label", for: id }, label),
    element,
    wrong && h("p", { key: "wrong", ...reason, "data-testid": `intervention-${name}-wrong` }, wrong),
  );
}

function shownOption(name, value) {
  if (value === null || value === undefined) return name === "time_limit" ? NONE : "";
  return name === "time_limit" ? `${value} s` : String(value);
}

function holdBody(form) {
  const data = new FormData(form);
  return { reason: data.get("reason"), finish: data.has("finish") };
}

function editBody(form) {
  const data = new FormData(form);
  const body = { reason: data.get("reason").trim() };
  if (data.get("project")) body.project = data.get("project");
  for (const [name] of OPTIONS) {
    const text = data.get(name).trim();
    if (text) body[name] = asSent(name, text);
  }
  return body;
}

/** Typed text, as the API takes it; anything but a number stays a text, which the pool refuses with a sentence. */
function asSent(name, text) {
  if (text.toLowerCase() === NONE && (name === "time_limit" || name === "min_workers")) return null;
  return name !== "time_limit" && /^\d{1,7}$/.test(text) ? Number(text) : text;
}
