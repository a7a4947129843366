/** Letting a person leave: what would become of what she has, and to whom her jobs go. */

import { call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";
import { refusalWords } from "./refusals.js";

const LEAVE = "leave";

/** The button that asks what would happen, or the answer with the choice of an heir. */
export function drawLeaving(name, editing) {
  const refusal = editing.refusal(LEAVE, name);
  const said = refusal && refusalWords(refusal, `leave-refusal-${name}`);
  if (!editing.asking(`${LEAVE} ${name}`)) {
    const label = { "aria-label": `Let ${clean(name)} leave…` };
    return h(
      "div",
      { key: "leave" },
      button(`leave-${name}`, "Leave…", () => ask(name, editing), label),
      said,
    );
  }
  const answer = editing.departure();
  const heir = () => heirOf(name, editing);
  const leave = () =>
    editing.change(LEAVE, name, async () => {
      const done = await call("POST", path(name), { to: heir() });
      if (done.pending.length) throw new Error(pendingWords(done.pending.length));
    });
  return h(
    "div",
    { key: "leaving", class: "st-leaving", "data-testid": `leaving-${name}` },
    !answer
      ? h("span", { key: "wait", class: "st-muted" }, "Looking…")
      : h(
          "ul",
          { key: "steps" },
          answer.steps.map((step, at) => h("li", { key: at }, clean(step))),
          answer.kept.map((kept, at) => h("li", { key: `kept ${at}`, class: "st-muted" }, clean(kept))),
          !answer.steps.length && h("li", { key: "nothing" }, "There is nothing in the pool that could end."),
        ),
    said,
    h(
      "div",
      { key: "actions", class: "st-row-actions" },
      h("input", {
        key: "to",
        type: "text",
        class: "form-control form-control-sm w-auto",
        placeholder: "hand jobs to",
        title: "Who gets the jobs; they are cancelled if nobody does",
        autocomplete: "off",
        value: editing.draft(LEAVE, name)?.texts.to ?? "",
        "aria-label": `Person to whom the jobs of ${clean(name)} go; empty to cancel them`,
        "data-testid": `leave-to-${name}`,
        on: {
          input: (event) => editing.type(LEAVE, name, "to", event.target.value, ""),
          change: () => look(name, editing, heir()),
        },
      }),
      button(`leave-not-${name}`, "Keep", () => close(name, editing)),
      button(`leave-confirm-${name}`, "Let leave", leave, {
        class: "st-button st-danger",
        disabled: !answer?.steps.length || editing.busy(`${LEAVE} ${name}`),
      }),
    ),
  );
}

function ask(name, editing) {
  editing.ask(`${LEAVE} ${name}`);
  return look(name, editing, heirOf(name, editing));
}

/** The typed name of the person to whom the jobs go; null if they are to be cancelled. */
function heirOf(name, editing) {
  return (editing.draft(LEAVE, name)?.texts.to ?? "").trim() || null;
}

function close(name, editing) {
  editing.discard(LEAVE, name);
  editing.ask(null);
}

/** Asks what would become of it all; a refusal is shown in place of the answer. */
async function look(name, editing, to) {
  editing.preview(null);
  try {
    editing.preview(await call("POST", path(name), { to, dry_run: true }));
  } catch (error) {
    editing.preview({ steps: [], kept: [error.message] });
  }
}

function path(name) {
  return `people/${encodeURIComponent(name)}/leave`;
}

function pendingWords(jobs) {
  const what = jobs === 1 ? "One job is" : `${jobs} jobs are`;
  return `${what} being paused; repeat this in a moment to hand over the rest.`;
}
