/** The rounding of the sums of a report, for reading at a glance. */

import { amount } from "../visuals/base/words.js";

const SMALLEST_SHOWN = 0.001;

/** A number as a whole one; below 10 with two significant digits, but no more than three decimals. */
export function rounded(number) {
  return Math.abs(number) < 10 ? Number(Number(number.toPrecision(2)).toFixed(3)) : Math.round(number);
}

/** The same as text; a smaller number than that shows, and not 0, is `< 0.001`. */
export function atAGlance(number) {
  const size = Math.abs(number);
  return size > 0 && size < SMALLEST_SHOWN ? `< ${SMALLEST_SHOWN}` : amount(rounded(number));
}
