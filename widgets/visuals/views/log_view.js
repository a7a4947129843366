/** A log: follows its end until scrolled away from it, and finds text without a change of its content. */

import { h, memory, patch } from "../base/dom.js";
import { stage } from "../base/glyphs.js";
import { clean, cleanLines } from "../base/words.js";

const NEAR = 24;
const MOST_MATCHES = 5000;

/** The displayable text of a log, computed again only after a change. `state` is the view's memory. */
export function shownLog(state, text) {
  if (state.text !== text) Object.assign(state, { text, shown: cleanLines(text) });
  return state.shown;
}

/**
 * A log as a description for other drawings; stays scrolled to its end if it is there.
 * @param text `shownLog`'s
 * @param ended whether the log is complete
 * @param reading why there is no text yet, in words; null if the log was read
 */
export function logTail(text, ended, reading = null) {
  return h(
    "pre",
    {
      key: "log",
      class: "st-log",
      tabindex: 0,
      role: "log",
      "aria-label": "Log",
      "aria-live": "off",
      "data-testid": "log-text",
      hook: follow,
    },
    text || h("span", { key: "none", class: "st-muted" }, withoutText(ended, reading)),
  );
}

function withoutText(ended, reading) {
  if (reading) return clean(reading);
  return ended ? "Nothing was written." : "Nothing has been written yet.";
}

/**
 * Draws a log with a field to search it.
 * @param data `text`; `reading`: why there is none yet, in words; `ended`: the log is complete; `cut`: its beginning is left out; `rank`, `ranks`: worker shown
 * @param actions `rank(n)` to show another worker's log, `earlier()` to show the omitted beginning
 */
export function renderLog(element, data, actions = {}) {
  const state = memory(element, { query: "", found: [], now: 0 });
  const again = () => renderLog(element, data, actions);
  const go = (step) => {
    state.now = state.found.length ? (state.now + step + state.found.length) % state.found.length : 0;
    again();
    reveal(state.found[state.now]);
  };
  stage(element, "st-log-view");
  const text = shownLog(state, data.text);
  patch(element, drawTools(data, actions, state, go), logTail(text, data.ended, data.reading));
  search(element, state);
  patch(element, drawTools(data, actions, state, go), logTail(text, data.ended, data.reading));
}

function drawTools(data, actions, state, go) {
  const found = state.query ? `${state.found.length ? state.now + 1 : 0} of ${state.found.length}` : "";
  return h(
    "div",
    { key: "tools", class: "st-log-tools" },
    h("input", {
      key: "query",
      type: "search",
      placeholder: "Search the log",
      "aria-label": "Search the log",
      "data-testid": "log-search",
      on: {
        input: (event) => {
          state.query = event.target.value;
          state.now = 0;
          go(0);
        },
        keydown: (event) => event.key === "Enter" && go(event.shiftKey ? -1 : 1),
      },
    }),
    h("span", { key: "found", class: "st-muted st-found", role: "status", "data-testid": "log-found" }, found),
    data.ranks > 1 && drawRanks(data, actions),
    data.cut &&
      actions.earlier &&
      h(
        "button",
        { key: "earlier", class: "st-button", type: "button", on: { click: actions.earlier } },
        "Show earlier",
      ),
    h("span", { key: "end", class: "st-muted st-log-end" }, data.ended ? "the log has ended" : "live"),
  );
}

function drawRanks(data, actions) {
  const choose = (event) => actions.rank?.(Number(event.target.value));
  const ranks = Array.from({ length: data.ranks }, (_, rank) => rank);
  return h(
    "select",
    { key: "rank", "aria-label": "Worker", on: { change: choose } },
    ranks.map((rank) => h("option", { key: rank, value: rank, selected: rank === data.rank }, `worker ${rank}`)),
  );
}

/** Keeps a log at its end: when it has grown, and when it gets another size, as when it is unfolded. */
function follow(log) {
  const state = memory(log, { following: true, text: null });
  const toEnd = () => {
    if (state.following) log.scrollTop = log.scrollHeight;
  };
  if (state.text === null) {
    log.addEventListener("scroll", () => {
      state.following = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
    });
    new ResizeObserver(toEnd).observe(log);
  }
  const text = log.textContent;
  if (state.text !== text) toEnd();
  state.text = text;
}

function search(element, state) {
  if (!("highlights" in CSS)) return;
  const text = element.querySelector("pre")?.firstChild;
  state.found = state.query && text?.nodeType === Node.TEXT_NODE ? rangesOf(text, state.query) : [];
  state.now = Math.min(state.now, Math.max(0, state.found.length - 1));
  CSS.highlights.set("st-found", new Highlight(...state.found));
  CSS.highlights.set("st-found-now", new Highlight(...state.found.slice(state.now, state.now + 1)));
}

function rangesOf(text, query) {
  const lower = text.data.toLowerCase();
  const wanted = query.toLowerCase();
  const found = [];
  for (
    let at = lower.indexOf(wanted);
    at >= 0 && found.length < MOST_MATCHES;
    at = lower.indexOf(wanted, at + wanted.length)
  ) {
    const range = new Range();
    range.setStart(text, at);
    range.setEnd(text, Math.min(at + wanted.length, text.length));
    found.push(range);
  }
  return found;
}

function reveal(range) {
  const log = range?.startContainer.parentElement;
  if (!log) return;
  const gap = range.getBoundingClientRect().top - log.getBoundingClientRect().top;
  log.scrollTop += gap - log.clientHeight / 3;
}
