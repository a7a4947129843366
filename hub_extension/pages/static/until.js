/** The time at which a change ends by itself: its field, and its words. */

import { h } from "./visuals/base/dom.js";

const DAY_S = 86_400;

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
  const text = new FormData(form).get("until");
  return text ? new Date(text).getTime() / 1000 : null;
}

/** `until Fri 27 Nov, 18:00`; the words of a day within a week are its weekday. */
export function untilWords(until, now) {
  const at = new Date(until * 1000);
  const near = until - now < 6 * DAY_S;
  const day = near ? { weekday: "long" } : { day: "numeric", month: "short", year: "numeric" };
  return `until ${at.toLocaleString(undefined, { ...day, hour: "2-digit", minute: "2-digit", hourCycle: "h23" })}`;
}
