/** The rounding of the sums of a report, for reading at a glance. */

/** A number as a whole one; below 10 with two significant digits, but no more than three decimals. */
export function rounded(number) {
  return Math.abs(number) < 10 ? Number(Number(number.toPrecision(2)).toFixed(3)) : Math.round(number);
}
