/** How curves are drawn: smoothed, on a logarithmic axis, and within a span. */

/** `smooth`: a weight of `smoothed`; `log`: on a logarithmic axis; `from` and `to`: the span, null for no bound. */
export const PLAIN = { smooth: 0, log: false, from: null, to: null };

/** Points of `finiteOf` with their place `along` the axis, as they are drawn. */
export function shaped(points, name, { smooth, log, from, to }) {
  const seen = within(smoothed(points, name, smooth), from, to);
  return log ? inPowers(seen, name) : seen;
}

/** The points with a metric smoothed by its moving average; of `weight` 0 nothing, up to 0.99. */
export function smoothed(points, name, weight) {
  if (!(weight > 0)) return points;
  let sum = 0;
  let share = 0;
  return points.map((point) => {
    sum = weight * sum + (1 - weight) * point.values[name];
    share = weight * share + (1 - weight);
    return { ...point, values: { ...point.values, [name]: sum / share } };
  });
}

/** The points with a metric in powers of ten; those that are not positive have none and are left out. */
export function inPowers(points, name) {
  return points
    .filter((point) => point.values[name] > 0)
    .map((point) => ({ ...point, values: { ...point.values, [name]: Math.log10(point.values[name]) } }));
}

/** The points within a span, and those outside it at the other end of a line that is partly within. */
export function within(points, from, to) {
  if (from === null && to === null) return points;
  const overlaps = (one, other) =>
    one &&
    other &&
    one.stretch === other.stretch &&
    (to === null || Math.min(one.along, other.along) <= to) &&
    (from === null || Math.max(one.along, other.along) >= from);
  return points.filter(
    (point, place) =>
      overlaps(point, point) || overlaps(points[place - 1], point) || overlaps(point, points[place + 1]),
  );
}

/**
 * The marks of an axis of powers of ten from `low` to `high`: whole powers, for a smaller span 1, 2 and 5 times these, and
 * for one that has fewer than three of these, what `usual` gives for the values themselves.
 */
export function powerTicks(low, high, usual) {
  const first = Math.ceil(low - 1e-9);
  const last = Math.floor(high + 1e-9);
  if (last - first < 1)
    return (
      partsOfPowers(low, high) ??
      usual(10 ** low, 10 ** high)
        .filter(isPositive)
        .map(Math.log10)
    );
  const step = Math.max(1, Math.ceil((last - first) / 5));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, place) => first + place * step);
}

function partsOfPowers(low, high) {
  const from = Math.floor(low);
  const powers = Array.from({ length: Math.ceil(high) - from + 1 }, (_, place) => from + place);
  const found = powers
    .flatMap((power) => [1, 2, 5].map((factor) => power + Math.log10(factor)))
    .filter((mark) => mark >= low - 1e-9 && mark <= high + 1e-9);
  return found.length < 3 ? null : found;
}

function isPositive(value) {
  return value > 0;
}
