/** The estimate for the job in a form: the GPUs that it would get, when, and the jobs that would make room for it. */

import { h } from "../base/dom.js";
import { button, colourOf, stateGlyph } from "../base/glyphs.js";
import { sentencesOf } from "../base/job_words.js";
import { ago, clean, clockNow } from "../base/words.js";
import { barScale, byType, projectBar, standingWords } from "../charts/project_bar.js";

const MOST_CELLS = 64;
const OLD_MS = 60000;
const SIGNS = { "estimate-now": "running", "estimate-room": "starting", "estimate-later": "queued" };

/** The part of the form with the estimate, as a description. */
export function formEstimate(session, { project = null, scale = null }) {
  const { estimate, later, problems } = session.review;
  const wrong = Object.keys(problems).length > 0;
  const isOld = estimate !== null && session.isOld;
  return h(
    "section",
    {
      key: "estimate",
      class: isOld ? "st-estimate st-outdated" : "st-estimate",
      "aria-label": "What to expect",
      "data-testid": "form-estimate",
      "data-code": estimate?.code ?? "",
    },
    h("h4", { key: "title", class: "st-estimate-title" }, "What to expect"),
    estimate && !wrong && cells(session, estimate),
    h(
      "div",
      { key: "words", role: "status", "aria-live": "polite" },
      wrong ? refusal(problems) : sentences(estimate, later),
    ),
    estimate &&
      (isOld || Date.now() - session.reviewedAt > OLD_MS) &&
      h(
        "p",
        { key: "old", class: "st-muted", "data-testid": "form-old" },
        `Asked ${ago(session.reviewedAt / 1000, clockNow())}.${isOld ? " The pool may have changed since. " : ""}`,
        isOld && button("form-ask", "Ask again", () => session.use()),
      ),
    project && standing(project, scale),
  );
}

/** The sentences of the estimate. The first one, which says when, is emphasized. */
function sentences(estimate, later) {
  const [first, ...rest] = sentencesOf(estimate);
  const sign = SIGNS[estimate?.code] ?? "queued";
  return [
    first &&
      h(
        "p",
        { key: "first", class: `st-estimate-first st-state-${sign}` },
        stateGlyph(sign),
        h("span", { key: "words" }, first),
      ),
    rest.map((words, place) => h("p", { key: `more ${place}` }, words)),
    !first && !later && h("p", { key: "asking", class: "st-muted" }, "Asking the pool…"),
    later && h("p", { key: "later", class: "st-muted", "data-testid": "form-later" }, clean(later)),
  ];
}

function refusal(problems) {
  return [
    h(
      "p",
      { key: "first", class: "st-estimate-first st-state-failed" },
      stateGlyph("cancelled"),
      h("span", { key: "words" }, "The pool would not take this job."),
    ),
    Object.entries(problems).map(([name, words]) => h("p", { key: `problem ${name}` }, clean(words))),
  ];
}

function cells(session, estimate) {
  const { gpus: now, borrowed = 0 } = estimate.params;
  const asked = Number(session.typed.gpus || 1) * Number(session.typed.workers || 1);
  const gpus = estimate.code === "estimate-later" ? asked : now;
  if (!Number.isInteger(gpus) || gpus < 1 || gpus > MOST_CELLS) return null;
  const chosen = session.form.person.projects.find(({ name }) => name === session.typed.project);
  const kind = (at) =>
    estimate.code === "estimate-later" ? "st-waiting" : at < gpus - borrowed ? "st-solid" : "st-hatched";
  return h(
    "div",
    {
      key: "cells",
      class: "st-held-cells st-estimate-cells",
      style: colourOf(chosen?.colour ?? null),
      "aria-hidden": "true",
    },
    Array.from({ length: gpus }, (_, at) => h("span", { key: at, class: `st-cell ${kind(at)}` })),
  );
}

function standing(project, given) {
  const types = byType(project);
  const scale = given ?? barScale(types);
  return h(
    "div",
    { key: "standing", class: "st-estimate-project" },
    h("h5", { key: "title" }, `${clean(project.name)} now`),
    types.map((of) => [
      projectBar(of, scale, `bar ${of.type}`),
      h("p", { key: `words ${of.type}`, class: "st-muted" }, of.type ? `${clean(of.type)}: ` : "", standingWords(of)),
    ]),
  );
}
