/** The common parts of job and sweep cards: the head, the GPUs as cells, and the buttons with their confirmation. */

import { h } from "../base/dom.js";
import { boardLink, isEnding, isFinal, projectMark, shownState, stateMark, tagWord } from "../base/glyphs.js";
import { optionsOf } from "../base/job_words.js";
import { clean, cleanLines, count, size } from "../base/words.js";
import { interventionForm } from "./intervention_form.js";
import { fromStartButton } from "./rerun_form.js";

const END = { question: "Kill it now? What it has not saved is lost.", keep: "Let it end", confirm: "End now" };

/** The head of a card: name, state, and the descriptions `about` below them. */
export function cardHeader({ job, href, target, colour }, about) {
  const name = clean(job.name) || job.id;
  return h(
    "header",
    { key: "header" },
    h(
      "h3",
      { key: "name", class: "st-title", "data-testid": "job-name" },
      href ? h("a", { href, target }, name) : name,
    ),
    stateMark(job, "job-state"),
    h(
      "div",
      { key: "about", class: "st-about st-muted" },
      projectMark(job.project, colour, "project"),
      job.user !== job.project && h("span", { key: "user" }, clean(job.user)),
      about,
      tagWords(optionsOf(job)),
    ),
  );
}

function tagWords({ tags }) {
  return (
    tags?.length > 0 &&
    h(
      "span",
      { key: "tags", "data-testid": "job-tags" },
      tags.map((tag) => [tagWord(tag), " "]),
    )
  );
}

/** The note about a job, if there is one. */
export function noteLine({ note }) {
  return (
    note && h("p", { key: "note", class: "st-muted st-note", "data-testid": "job-note" }, `Note: ${cleanLines(note)}`)
  );
}

/**
 * The buttons of a card, the outcome of the last action, and the reason if there are no buttons.
 * @param data as of the card, where `blocked` is true for a reason that the page says; the form of an open `editor` has buttons of its own; `measured`: what a deletion would
 *   remove, null until that is known
 * @param actions `pause()`, `resume()`, `cancel()`, `end()`, `rerun()`, `edit()` and others, each left out if not permitted;
 *   `hold()` and `change()` open the form of the `intervention`
 * @param state the card's memory, with `confirming`: the action that is asked about, and `asked`
 * @param again draws the card again
 * @param words `board`: the address of the TensorBoard, left out if there is nothing in it; `erases`: whether the card offers to delete a job that has ended; `standing`: changes when an action has had its effect; `cancel`: the button's words; `question`, `keep`
 *   and `confirm` of its confirmation; `more`: further buttons as pairs of an action and its words; `aside`: those that do
 *   not change the job; `expanded`: "true" or "false" for actions whose content the card shows
 */
export function cardActions(data, actions, state, again, words) {
  const { job, notice, blocked, editor, measured, intervention, projects } = data;
  const standing = `${words.standing} ${shownState(job)} ${job.held_by_user} ${Boolean(job.hold)} ${notice ?? ""}`;
  if (state.asked !== standing) state.asked = null;
  if (state.confirming !== (isEnding(job) ? "end" : "cancel") || isFinal(job.state) || blocked) state.confirming = null;
  if (!isFinal(job.state) || blocked) state.erasing = false;
  const ask = (name) => () => {
    state.asked = standing;
    state.confirming = null;
    state.erasing = false;
    actions[name]();
    again();
  };
  const confirm = (action) => () => {
    state.confirming = action;
    again();
  };
  const erase = (open) => () => {
    state.erasing = open;
    if (open) actions.measure();
    again();
  };
  const waiting = Boolean(blocked) || state.asked !== null || Boolean(editor?.sending);
  if (editor?.isOpen) return null;
  if (intervention?.what && !isFinal(job.state) && !blocked) return interventionForm(intervention, [job], projects);
  const buttons = state.confirming
    ? confirmation(state.confirming === "end" ? END : words, ask(state.confirming), confirm(null))
    : state.erasing
      ? erasure(job, measured, ask("delete"), erase(false))
      : choices(job, actions, ask, confirm, waiting, { ...words, isAway: Boolean(blocked), erase: erase(true) });
  const said = [
    editor?.notice &&
      h(
        "span",
        { key: "editor", class: "st-notice", role: "status", "data-testid": "rerun-notice" },
        clean(editor.notice),
      ),
    editor?.isGone && fromStartButton(editor),
    notice &&
      h("span", { key: "notice", class: "st-notice", role: "status", "data-testid": "job-notice" }, clean(notice)),
    typeof blocked === "string" &&
      h(
        "span",
        { key: "blocked", class: "st-notice st-muted", role: "status", "data-testid": "job-blocked" },
        clean(blocked),
      ),
  ].filter(Boolean);
  if (!buttons.some(Boolean) && !said.length) return null;
  return h("footer", { key: "actions" }, said, buttons);
}

function choices(job, actions, ask, confirm, waiting, words) {
  const { cancel, more = [], aside = [], expanded = {}, isAway, erases, erase } = words;
  const board = words.board && boardLink(words.board, "job-tensorboard");
  if (isFinal(job.state))
    return [
      ...afterwards(actions, waiting),
      board,
      erases && actions.delete && cardButton("delete", "Delete…", erase, waiting),
    ];
  const others = aside.map(
    ([name, label]) =>
      actions[name] && cardButton(name, label, actions[name], isAway, { "aria-expanded": expanded[name] ?? null }),
  );
  others.push(board);
  if (isEnding(job)) return [...others, actions.end && cardButton("end", "End now…", confirm("end"), waiting)];
  const { pause, resume } = offers(job);
  return [
    pause && actions.pause && cardButton("pause", pause, ask("pause"), waiting),
    resume && actions.resume && cardButton("resume", resume, ask("resume"), waiting),
    actions.hold && cardButton("hold", "Put on hold…", actions.hold, waiting),
    actions.release && cardButton("release", "Release", ask("release"), waiting),
    actions.change && cardButton("change", "Edit…", actions.change, waiting),
    job.ended_cleanly && actions.finish && cardButton("finish", "Mark as finished", ask("finish"), waiting),
    more.map(([name, words]) => actions[name] && cardButton(name, words, ask(name), waiting)),
    others,
    actions.cancel && cardButton("cancel", cancel, confirm("cancel"), waiting),
  ].flat();
}

/** The actions for an ended job. They submit another job, so this one does not change. */
function afterwards({ rerun, edit }, waiting) {
  return [
    rerun && cardButton("rerun", "Run again", rerun, waiting),
    edit && cardButton("edit", "Edit and run again…", edit, waiting),
  ];
}

function offers(job) {
  if (job.held_by_user) return { pause: null, resume: "Resume" };
  if (job.state === "pausing") return { pause: null, resume: null };
  return { pause: job.state === "paused" ? "Keep paused" : "Pause", resume: null };
}

function confirmation({ question, keep, confirm }, act, back) {
  return [
    h("span", { key: "question", class: "st-question", role: "alert" }, question),
    cardButton("keep", keep, back, false),
    cardButton("confirm", confirm, act, false, { class: "st-button st-danger" }),
  ];
}

/** The question before a deletion, with what it removes. */
function erasure(job, measured, erase, back) {
  const name = job.name ? `“${clean(job.name)}”` : "this job";
  const more = measured?.jobs > 1 ? ` and ${count(measured.jobs - 1, "job")} of it` : "";
  const question = measured
    ? `Delete ${name}${more} with ${size(measured.bytes)} of files? This cannot be undone.`
    : "Measuring its files…";
  return [
    h("span", { key: "delete-question", class: "st-question", role: "alert" }, question),
    cardButton("keep", "Keep it", back, false),
    cardButton("delete-now", "Delete the job", erase, !measured, { class: "st-button st-danger" }),
  ];
}

function cardButton(name, words, click, disabled, props = {}) {
  return h(
    "button",
    { key: name, type: "button", class: "st-button", disabled, "data-testid": `job-${name}`, on: { click }, ...props },
    words,
  );
}
