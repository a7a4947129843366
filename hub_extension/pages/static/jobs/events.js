/** What happened to a job, in order: its submission, its attempts, what people did to it, and its end. */

import { h } from "../visuals/base/dom.js";
import { when } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";

/** The list of what happened. */
export function drawEvents({ story }, now) {
  return h(
    "ol",
    { class: "st-events", "data-testid": "events" },
    story.map(({ at, text }, place) =>
      h(
        "li",
        { key: place, "data-testid": "event-row" },
        when(at, now, "at"),
        h("span", { key: "words" }, clean(text)),
      ),
    ),
  );
}
