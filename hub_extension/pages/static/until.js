/** The time at which a change ends by itself: its field, and its words. */

import { h } from "./visuals/base/dom.js";
import { clock, day, typedTime, weekday } from "./visuals/base/words.js";

/** A field for the end of a change, empty for one that stays. */
export function untilField(testid, label = "Until, or empty for good") {
  return h(
    "label",
    { key: "until" },
    `${label} `,
    h("input", {
      type: "datetime-local",
      class: "form-control form-control-sm w-auto",
      name: "until",
      "data-testid": testid,
    }),
  );
}

/** The typed time of a form in seconds since the epoch; null for none. */
export function untilOf(form) {
  return typedTime(new FormData(form).get("until"));
}

/** `until 18:00`; of another day `until 2026-11-27 18:00 (Friday)`. */
export function untilWords(until, now) {
  const words = clock(until, now);
  return day(until) === day(now) ? `until ${words}` : `until ${words} (${weekday(until)})`;
}
