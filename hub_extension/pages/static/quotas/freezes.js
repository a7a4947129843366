/** Freezing of a project with a reason and an end, and what of a project ends by itself. */

import { call, site } from "../site.js";
import { untilField, untilOf, untilWords } from "../until.js";
import { h } from "../visuals/base/dom.js";
import { focusOnce } from "../visuals/base/focus.js";
import { button, submitButton } from "../visuals/base/glyphs.js";
import { clean, clockNow } from "../visuals/base/words.js";

/** The line of a frozen project; null if it is not frozen. */
export function drawFrozen({ name, freeze }) {
  if (!freeze) return null;
  const whose = freeze.project === name ? "Frozen" : `Frozen with ${clean(freeze.project)}`;
  const ends = freeze.until === null ? "" : ` ${untilWords(freeze.until, clockNow())}`;
  const why = freeze.why ? `: ${clean(freeze.why)}` : ".";
  return h(
    "p",
    { key: "frozen", class: "st-problem mb-1", "data-testid": `frozen-${name}` },
    `${whose} by ${clean(freeze.by)}${ends}${why}`,
  );
}

/** The values of a project that end by themselves. */
export function drawEndings({ name, endings }, valueWords) {
  const now = clockNow();
  return Object.entries(endings ?? {}).map(([field, { until, before, refused }]) =>
    h(
      "p",
      {
        key: `ends ${field}`,
        class: refused ? "st-problem mb-1" : "st-muted mb-1",
        "data-testid": `ending-${name}-${field}`,
      },
      refused
        ? `The ${words(field)} did not return to ${valueWords(before)}: ${clean(refused)}`
        : `This ${words(field)} holds ${untilWords(until, now)}, then ${valueWords(before)} again.`,
    ),
  );
}

/** The quotas of a project that are others now, by bookings. */
export function drawBooked({ name, by_type: byType, ...project }) {
  const kinds = Object.entries(byType);
  const differ = (kinds.length ? kinds : [["", project]]).filter(([, of]) => of.quota !== of.present_quota);
  if (!differ.length) return null;
  const present = differ.map(([type, of]) => `${of.present_quota} ${clean(type)}`.trim()).join(", ");
  return h(
    "p",
    { key: "booked", class: "st-muted mb-1", "data-testid": `booked-${name}` },
    `Now ${present} by bookings; this is the quota without them.`,
  );
}

function words(field) {
  return clean(field).replaceAll("_", " ");
}

/** The button that freezes or unfreezes a project. */
export function freezeButton({ name, freeze }, editing) {
  if (!site.administers(name)) return null;
  const props = { disabled: editing.busy(`project ${name}`) };
  if (freeze?.project === name)
    return button(`unfreeze-${name}`, "Unfreeze", () => send(name, "unfreeze", undefined, editing), props);
  return button(`freeze-${name}`, "Freeze…", () => editing.ask(`freeze ${name}`), props);
}

/** The question before a freeze; null while it is closed. */
export function drawFreezing({ name }, editing) {
  if (!editing.asking(`freeze ${name}`)) return null;
  const submit = (event) => {
    event.preventDefault();
    const data = new FormData(event.target);
    const body = { why: data.get("why"), finish: data.has("finish"), until: untilOf(event.target) };
    return send(name, "freeze", body, editing);
  };
  return h(
    "form",
    { key: "freezing", class: "st-ask", "data-testid": `freezing-${name}`, on: { submit } },
    h(
      "p",
      { key: "words", class: "mb-1" },
      `Freeze ${clean(name)}, with the projects inside it? None of its jobs starts or resumes; new ones wait.`,
    ),
    h(
      "label",
      { key: "why" },
      "Reason, which the jobs' owners see ",
      h("input", {
        class: "form-control form-control-sm",
        name: "why",
        maxlength: 500,
        hook: focusOnce,
        "data-testid": "freeze-why",
      }),
    ),
    untilField("freeze-until"),
    h(
      "label",
      { key: "finish" },
      h("input", { type: "checkbox", name: "finish", "data-testid": "freeze-finish" }),
      " Let jobs that run finish, instead of pausing them",
    ),
    h(
      "div",
      { key: "buttons" },
      button("freeze-keep", "Not now", () => editing.ask(null)),
      " ",
      submitButton("freeze-confirm", "Freeze it", {
        class: "st-button st-danger",
        disabled: editing.busy(`project ${name}`),
      }),
    ),
  );
}

function send(name, what, body, editing) {
  return editing.change("project", name, () => call("POST", `projects/${encodeURIComponent(name)}/${what}`, body));
}
