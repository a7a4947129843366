/** States as a glyph and a word, project colours, and the parts every drawing shares. */

import { h, s } from "./dom.js";
import { ago, clean, clock, exact, iso } from "./words.js";

export const PALETTE_SIZE = 10;
/** Letters of the name of a parent that stay in the name of its fork. */
const UNCUT = 6;

const BARS = ["M6.2 5v6", "M9.8 5v6"];
const SLASH = ["M4 12L12 4"];
const PLAY = "M6.4 5v6l4.8-3z";
const STATES = {
  queued: { word: "Queued", ring: true, lines: ["M8 4.5V8l2.4 1.6"] },
  starting: { word: "Starting", ring: true, dashed: true, solid: PLAY },
  running: { word: "Running", disc: true, solid: PLAY },
  pausing: { word: "Pausing", ring: true, dashed: true, lines: BARS },
  cancelling: { word: "Cancelling", ring: true, dashed: true, lines: SLASH },
  ending: { word: "Ending", ring: true, dashed: true, lines: ["M5.8 5.8h4.4v4.4H5.8z"] },
  paused: { word: "Paused", disc: true, lines: BARS },
  succeeded: { word: "Succeeded", disc: true, lines: ["M4.9 8.3l2.2 2.2 4.1-4.6"] },
  incomplete: { word: "Succeeded", disc: true, lines: ["M8 4.4v4.6", "M8 11.4v.1"] },
  failed: { word: "Failed", disc: true, lines: ["M5.6 5.6l4.8 4.8", "M10.4 5.6l-4.8 4.8"] },
  pruned: { word: "Pruned", ring: true, lines: ["M5 8h6"] },
  cancelled: { word: "Cancelled", ring: true, lines: SLASH },
  blocked: { word: "Blocked", ring: true, lines: ["M4 8h8"] },
  lost: { word: "Lost", ring: true, lines: ["M6.3 6.4a1.8 1.8 0 1 1 2.5 1.7c-.6.3-.8.6-.8 1.2", "M8 11.3v.1"] },
};

/** Whether a job in this state has ended. */
export function isFinal(state) {
  return state === "succeeded" || state === "failed" || state === "cancelled";
}

/** The word of a state. */
export function stateWord(state) {
  return STATES[state]?.word ?? clean(state);
}

/** The state of a job, an attempt or a trial as people see it; outputs saved by earlier versions have its code alone. */
export function shownState({ shown, state }) {
  return clean(shown || state);
}

/** That state in one word, without the failed trials of a sweep: by it jobs are chosen and grouped. */
export function briefState(of) {
  return shownState(of).split(",")[0];
}

/** Whether a job is being ended for good: it is cancelled, or at its time limit, and its program has not ended yet. */
export function isEnding(job) {
  const words = shownState(job);
  return words === "cancelling" || words === "ending";
}

/** The glyph of a state, always drawn beside its word. */
export function stateGlyph(state) {
  const drawing = STATES[state] ?? STATES.lost;
  const ink = drawing.disc ? "var(--st-page)" : "currentColor";
  return s(
    "svg",
    { key: state, class: "st-glyph", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    drawing.disc && s("circle", { cx: 8, cy: 8, r: 7, fill: "currentColor" }),
    drawing.ring && ringOf(drawing.dashed),
    drawing.solid && s("path", { d: drawing.solid, fill: ink }),
    (drawing.lines ?? []).map((d) =>
      s("path", { d, fill: "none", stroke: ink, "stroke-width": 1.6, "stroke-linecap": "round" }),
    ),
  );
}

/** Glyph and words of the state of a job, an attempt or a trial together; if `isBrief`, more than the state is the title. */
export function stateMark(of, testid, isBrief = false) {
  const whole = shownState(of);
  const known = [whole, of.state].find((name) => Object.hasOwn(STATES, name)) ?? "lost";
  const drawn = known === "succeeded" && whole !== known ? "incomplete" : known;
  const words = isBrief ? briefState(of) : whole;
  return h(
    "span",
    {
      key: "state",
      class: `st-state st-state-${drawn}`,
      role: testid ? "status" : null,
      "data-testid": testid,
      title: words === whole ? null : whole,
    },
    stateGlyph(drawn),
    h("span", {}, words.charAt(0).toUpperCase() + words.slice(1)),
  );
}

/**
 * The name of a job, or its id. Where a place is short the name of a fork is cut before `, from step 60`, at the end of its
 * parent's name, of which the beginning stays.
 */
export function jobName({ name, id }) {
  const words = clean(name) || id;
  const [, first, mark] = /^(.+)(, from [^,]{1,30})$/.exec(words) ?? [];
  if (!mark) return words;
  const letters = [...first];
  const isLong = letters.length > UNCUT + 2;
  const parts = isLong ? [letters.slice(0, UNCUT).join(""), letters.slice(UNCUT).join("")] : [first, ""];
  return h(
    "span",
    { key: "fork-name", class: "st-fork-name", title: words },
    h("span", { class: "st-fork-begin" }, parts[0]),
    isLong && h("span", { class: "st-fork-rest" }, parts[1]),
    h("span", { class: "st-fork-mark" }, mark),
  );
}

/** The style for a project's colour, the same on all pages; null is no project. */
export function colourOf(index) {
  const place = Number.isInteger(index) && index >= 0 ? index % PALETTE_SIZE : "none";
  return { "--st-colour": `var(--st-project-${place})` };
}

/** A time in these words, exact on hover. */
export function timeMark(at, words, props = {}) {
  return h("time", { ...props, datetime: iso(at), title: exact(at) }, words);
}

/** A relative time, exact on hover. */
export function when(at, now, key) {
  return timeMark(at, ago(at, now), { key });
}

/** A time of day, which stays true without being drawn again; exact on hover. */
export function timeOf(at, now, key) {
  return timeMark(at, `at ${clock(at, now)}`, { key });
}

/** The label of simulated GPUs. */
export function simulatedMark(simulated) {
  return simulated && h("span", { key: "simulated", class: "st-simulated", "data-testid": "simulated" }, "simulated");
}

/** A tag of a job. It may be in any script, and does not change the writing direction of the text beside it. */
export function tagWord(tag) {
  return h("bdi", { key: `tag ${tag}`, class: "st-tag" }, `#${clean(tag)}`);
}

/** A project's colour and name. */
export function projectMark(name, colour, key) {
  return h(
    "span",
    { key: key ?? `project ${name}`, class: "st-project" },
    h("span", { class: "st-key st-solid", style: colourOf(colour), "aria-hidden": "true" }),
    h("span", { class: "st-project-name", title: clean(name) }, clean(name)),
  );
}

/** A progress track: the filled part, its words, and further attributes. */
export function progressTrack(part, words, more = {}) {
  const share = Math.min(1, Math.max(0, part));
  const bounds = { "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.floor(100 * share) };
  const label = { role: "progressbar", "aria-label": "Progress", "aria-valuetext": words, title: words };
  const fill = h("div", { class: "st-fill", style: { width: `${100 * share}%` } });
  return h("div", { key: "progress", class: "st-track", ...label, ...bounds, ...more }, fill);
}

/** A button: its name (test id and key), its label, its click handler, and further attributes. */
export function button(name, words, click, more = {}) {
  const props = { key: name, type: "button", class: "st-button", "data-testid": name, on: { click } };
  return h("button", { ...props, ...more }, words);
}

/** The button that sends its form: its name (test id and key), its label, and further attributes. */
export function submitButton(name, words, more = {}) {
  const props = { key: name, type: "submit", class: "st-button st-primary", "data-testid": name };
  return h("button", { ...props, ...more }, words);
}

/** The mark beside the name of a column by which a table is sorted: as `aria-sort` says it, or "none". */
export function sortMark(sorted) {
  const arrow = { ascending: " ▴", descending: " ▾" }[sorted];
  return h("span", { key: "arrow", "aria-hidden": "true", "data-testid": "sort-mark" }, arrow);
}

/** A link to the TensorBoard of jobs, which the viewer's notebook server shows. */
export function boardLink(href, testid) {
  return h(
    "a",
    {
      key: "tensorboard",
      class: "st-button",
      href,
      target: "_blank",
      rel: "noopener",
      title: "Opens in a new tab, which shows how far it is while your notebook server starts it",
      "data-testid": testid,
    },
    "Open TensorBoard",
  );
}

/** The content of an empty view: the present state, and the next step. */
export function emptyState(title, ...next) {
  return h("div", { key: "empty", class: "st-empty", "data-testid": "empty" }, h("strong", {}, title), ...next);
}

/** Prepares `element` as a container of drawings, with `facts` as its `data-` attributes. What stands is not set again. */
export function stage(element, name, facts = {}) {
  for (const each of ["springtide", name]) if (!element.classList.contains(each)) element.classList.add(each);
  for (const [fact, value] of Object.entries(facts)) if (element.dataset[fact] !== value) element.dataset[fact] = value;
  return element;
}

function ringOf(dashed) {
  return s("circle", {
    cx: 8,
    cy: 8,
    r: 6.2,
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 1.5,
    "stroke-dasharray": dashed ? "3 2" : null,
  });
}
