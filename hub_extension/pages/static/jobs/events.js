/** The timeline of a job: its submission, its attempts, the acts of people, and its end. */

import { h } from "../visuals/base/dom.js";
import { when } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";

/** The list of its entries. */
export function drawEvents({ timeline }, now) {
  return h(
    "ol",
    { class: "st-events", "data-testid": "events" },
    timeline.map(({ at, text }, place) =>
      h(
        "li",
        { key: place, "data-testid": "event-row" },
        when(at, now, "at"),
        h("span", { key: "words" }, clean(text)),
      ),
    ),
  );
}
