/** A field of a form: its label, its value, its help and its error. */

import { h } from "../base/dom.js";
import { clean } from "../base/words.js";

const OWN = "\u0000own";

/** The field of an option, from the table of options. */
export function formField(session, field) {
  const value = session.typed[field.name] ?? "";
  const isOwn = session.own.has(field.name);
  const choices = field.choices.length
    ? [...field.choices, ...(field.own ? [{ value: OWN, words: `${field.own}…` }] : [])]
    : null;
  const wrong = session.review.problems[field.name] ?? "";
  const set = (chosen) =>
    chosen === OWN ? session.setOption(field.name, "", true) : session.setOption(field.name, chosen);
  return textField(session, {
    ...field,
    choices,
    value: isOwn ? OWN : value,
    wrong,
    number: field.kind === "whole" && choices === null && field.value !== "",
    lines: field.kind === "variables",
    set,
    after: isOwn && ownValue(session, field, value, wrong),
  });
}

function ownValue(session, field, value, wrong) {
  return h("input", {
    key: "own",
    type: "text",
    class: "st-input",
    value,
    "aria-label": `${field.label}: ${field.own}`,
    "aria-invalid": wrong ? "true" : null,
    "data-testid": `form-own-${field.name}`,
    on: { input: (event) => session.setOption(field.name, event.target.value, true) },
  });
}

/**
 * A field with a label. `field`: `name`, `label`, `help`, `value`, `placeholder`, `choices` or null, `wrong`: its
 * error, `number`, `lines`: a field of several lines, `wide`: a whole row, `code`, `required`, `set(value)`, `after`
 */
export function textField(session, field) {
  const id = `${session.id}-${field.name}`;
  const wrong = clean(field.wrong ?? "");
  const described = [wrong && `${id}-wrong`, field.help && `${id}-help`].filter(Boolean).join(" ");
  const props = {
    key: "input",
    id,
    class: `st-input${field.code ? " st-code" : ""}`,
    value: field.value,
    "aria-describedby": described || null,
    "aria-invalid": wrong ? "true" : null,
    "aria-required": field.required ? "true" : null,
    readonly: field.read_only ? "" : null,
    "data-testid": `form-${field.name}`,
  };
  return h(
    "div",
    { key: field.name, class: `st-field${field.wide ? " st-across" : ""}`, "data-wrong": String(Boolean(wrong)) },
    h("label", { key: "label", for: id, class: field.code ? "st-code" : null }, clean(field.label)),
    field.choices ? select(props, field) : input(props, field),
    field.after,
    wrong &&
      h(
        "p",
        {
          key: "wrong",
          id: `${id}-wrong`,
          class: "st-field-wrong",
          role: "alert",
          "data-testid": `form-${field.name}-wrong`,
        },
        wrong,
      ),
    field.help && h("p", { key: "help", id: `${id}-help`, class: "st-field-help" }, clean(field.help)),
  );
}

/** A choice. A value that is no longer among the choices stays until the user chooses another. */
function select(props, field) {
  const known = field.choices.some(({ value }) => value === field.value);
  const choices =
    known || !field.value ? field.choices : [...field.choices, { value: field.value, words: field.value }];
  const hook = (node) => {
    if (node.value !== field.value) node.value = field.value;
  };
  return h(
    "select",
    { ...props, hook, disabled: choices.length === 0, on: { change: (event) => field.set(event.target.value) } },
    choices.map(({ value, words }) => h("option", { key: `choice ${value}`, value }, clean(words))),
  );
}

function input(props, field) {
  const on = { input: (event) => field.set(event.target.value) };
  const placeholder = clean(field.placeholder ?? "");
  if (field.lines) return h("textarea", { ...props, placeholder, rows: 2, spellcheck: "false", on });
  const least = field.number ? { type: "number", min: field.least, step: 1, inputmode: "numeric" } : { type: "text" };
  return h("input", { ...props, ...least, placeholder, autocomplete: "off", spellcheck: "false", on });
}
