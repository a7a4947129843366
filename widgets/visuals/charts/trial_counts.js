/** The trials of a sweep by state: a bar of their shares with a legend of numbers. */

import { h } from "../base/dom.js";
import { colourOf, stateWord } from "../base/glyphs.js";
import { TRIAL_STATES } from "../base/sweep_words.js";
import { amount } from "../base/words.js";

const WORDS = { queued: "to come" };

/** The bar and its legend, as a description. */
export function trialCounts(counts, colour) {
  const parts = TRIAL_STATES.map((state) => ({ state, number: counts[state] })).filter(({ number }) => number > 0);
  const words = parts.map(({ state, number }) => `${amount(number)} ${wordOf(state)}`);
  return h(
    "div",
    { key: "counts", class: "st-counts", style: colourOf(colour) },
    h(
      "div",
      {
        key: "bar",
        class: "st-counts-bar",
        role: "img",
        "aria-label": `Trials: ${words.join(", ")}`,
        "data-testid": "sweep-counts",
      },
      parts.map(({ state, number }) =>
        h("span", {
          key: state,
          class: `st-count-${state}`,
          style: { "flex-grow": number },
          title: `${amount(number)} ${wordOf(state)}`,
        }),
      ),
    ),
    h(
      "ul",
      { key: "legend", class: "st-counts-legend" },
      parts.map(({ state, number }) =>
        h(
          "li",
          { key: state, "data-testid": `count-${state}` },
          h("span", { key: "key", class: `st-count-key st-count-${state}`, "aria-hidden": "true" }),
          h("strong", { key: "number" }, amount(number)),
          ` ${wordOf(state)}`,
        ),
      ),
    ),
  );
}

function wordOf(state) {
  return WORDS[state] ?? stateWord(state).toLowerCase();
}
