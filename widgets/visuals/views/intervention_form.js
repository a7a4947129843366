/** The forms with which jobs are put on hold, and with which what they ask for is changed. */

import { h } from "../base/dom.js";
import { focusOnce } from "../base/focus.js";
import { button } from "../base/glyphs.js";
import { clean, count } from "../base/words.js";

const OPTIONS = [
  ["priority", "Priority", "train, high, critical or a number"],
  ["time_limit", "Time limit", "such as 2h, or none"],
  ["workers", "Workers", "a number"],
  ["min_workers", "Fewest workers", "a number, or none for all"],
];
const NONE = "none";

/**
 * The form of an open `Intervention`.
 * @param jobs the jobs that it is about
 * @param projects the names of the projects that a job can be moved to
 */
export function interventionForm({ what, busy, problem, submit, close }, jobs, projects) {
  const about = jobs.length === 1 ? `“${clean(jobs[0].name) || jobs[0].id}”` : count(jobs.length, "job");
  const send = (event) => {
    event.preventDefault();
    submit(what === "hold" ? holdBody(event.target) : editBody(event.target));
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
    what === "hold" ? holdFields(about, jobs) : editFields(about, jobs, projects),
    problem && h("p", { key: "problem", class: "st-notice", role: "alert" }, clean(problem)),
    h(
      "div",
      { key: "buttons", class: "st-intervention-buttons" },
      button("intervention-close", "Not now", close),
      h(
        "button",
        {
          key: "send",
          type: "submit",
          class: "st-button st-primary",
          disabled: busy,
          "data-testid": "intervention-send",
        },
        what === "hold" ? "Put on hold" : "Save",
      ),
    ),
  );
}

function holdFields(about, jobs) {
  const runs = jobs.some(({ state }) => state === "running" || state === "starting");
  return [
    h(
      "p",
      { key: "words", class: "st-muted" },
      `Put ${about} on hold? It asks for no GPUs until an administrator releases it.`,
    ),
    field("reason", "Reason, which everyone who sees it reads", "", {
      required: true,
      maxlength: 500,
      hook: focusOnce,
    }),
    runs &&
      h(
        "label",
        { key: "finish", class: "st-check" },
        h("input", { type: "checkbox", name: "finish", "data-testid": "intervention-finish" }),
        " Let what runs finish, instead of pausing it",
      ),
  ];
}

function editFields(about, jobs, projects) {
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
        field(name, label, one ? shownOption(name, options[name]) || expected : expected, {
          title: expected,
          hook: at === 0 ? focusOnce : null,
        }),
      ),
      h(
        "label",
        { key: "project", class: "st-field" },
        h("span", { key: "label" }, "Project"),
        h(
          "select",
          { key: "select", class: "st-input", name: "project", "data-testid": "intervention-project" },
          h("option", { key: "stays", value: "" }, one ? `${clean(first.project)} (stays)` : "stays"),
          projects
            .filter((name) => !one || name !== first.project)
            .map((name) => h("option", { key: `is ${name}`, value: name }, clean(name))),
        ),
      ),
      field("reason", "Reason, for the audit trail", "", { maxlength: 500 }),
    ),
  ];
}

function field(name, label, placeholder, props = {}) {
  return h(
    "label",
    { key: name, class: "st-field" },
    h("span", { key: "label" }, label),
    h("input", {
      key: "input",
      type: "text",
      class: "st-input",
      name,
      placeholder,
      autocomplete: "off",
      "data-testid": `intervention-${name}`,
      ...props,
    }),
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
