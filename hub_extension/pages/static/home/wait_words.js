/** Waits in so few words that columns of them stay narrow. */

import { amount, duration } from "../visuals/base/words.js";

const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;

/** A wait in one unit: `40 s`, `12 min`, `1.5 h`, `2.1 d`; a dash for none. */
export function waitWords(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < MINUTE_S) return duration(seconds);
  const minutes = Math.round(seconds / MINUTE_S);
  if (minutes < HOUR_S / MINUTE_S) return `${minutes} min`;
  const [unit, length] = seconds < DAY_S ? ["h", HOUR_S] : ["d", DAY_S];
  return `${tenths(seconds / length)} ${unit}`;
}

/** A number with at most one digit after the point. */
export function tenths(value) {
  return amount(Math.round(10 * value) / 10);
}
