/** The scales of charts: the position of a value on an axis, and the marks. Every finite number has a position. */

const TICKS = 4;
const STEPS = [1, 2, 2.5, 5, 10];
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIME_STEPS = [
  1,
  2,
  5,
  10,
  20,
  30,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  20 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  4 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
];

/** The place of a value from 0 at `low` to 1 at `high`; 0.5 where these are equal. */
export function fraction(value, low, high) {
  if (!(high > low)) return 0.5;
  const span = high - low;
  return Number.isFinite(span) ? (value - low) / span : (value / 2 - low / 2) / (high / 2 - low / 2);
}

/** Round numbers from at most `low` to at least `high`. */
export function ticks(low, high) {
  const rough = high / TICKS - low / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  if (!(power > 0)) return high > low ? [low, high] : [low];
  return multiples(
    STEPS.map((factor) => factor * power).find((size) => size >= rough * 0.999),
    low,
    high,
  );
}

/** Times in whole seconds, minutes, hours or days from at most `low` to at least `high`, in seconds. */
export function timeTicks(low, high) {
  if (!(high > low)) return [low];
  const rough = high / TICKS - low / TICKS;
  return multiples(TIME_STEPS.find((size) => size >= rough * 0.999) ?? DAY * Math.ceil(rough / DAY), low, high);
}

function multiples(step, low, high) {
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step - 1e-9);
  const marks = Array.from({ length: last - first + 1 }, (_, place) =>
    Number(((first + place) * step).toPrecision(12)),
  );
  return [...new Set(marks)].filter(Number.isFinite);
}
