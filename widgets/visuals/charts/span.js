/** The shown span of an axis: `from` and `to`, both null for all of it. `whole` is all of it, as `from` and `to`. */

export const WHOLE = { from: null, to: null };

/** Fraction of an axis below which there is no further zoom. */
const SHORTEST = 1e-4;

/** The span between two places in any order, or null if it is too short to be meant. */
export function spanBetween(one, other, whole) {
  const from = Math.max(whole.from, Math.min(one, other));
  const to = Math.min(whole.to, Math.max(one, other));
  return to - from > SHORTEST * (whole.to - whole.from) ? rounded(from, to) : null;
}

/** The span with its ends in order: `from` is not after `to`. */
export function orderly({ from, to }) {
  return from !== null && to !== null && from > to ? { from: to, to: from } : { from, to };
}

/** The span around the same middle, `factor` times as long. */
export function zoomed(span, whole, factor) {
  const { from, to } = bounded(span, whole);
  const half = ((to - from) * factor) / 2;
  if (2 * half <= SHORTEST * (whole.to - whole.from)) return span;
  return shown((from + to) / 2 - half, (from + to) / 2 + half, whole);
}

/** The span moved by `share` of its length, as far as the axis reaches. */
export function moved(span, whole, share) {
  const { from, to } = bounded(span, whole);
  if (!(to > from)) return span;
  const by = Math.min(Math.max((to - from) * share, whole.from - from), whole.to - to);
  return shown(from + by, to + by, whole);
}

function bounded({ from, to }, whole) {
  return { from: from ?? whole.from, to: to ?? whole.to };
}

function shown(from, to, whole) {
  if (from <= whole.from && to >= whole.to) return WHOLE;
  return rounded(Math.max(from, whole.from), Math.min(to, whole.to));
}

/** The ends without digits too small to see: to a thousandth of the span or less. */
function rounded(from, to) {
  const digits = Math.min(100, Math.max(0, Math.ceil(3 - Math.log10(to - from))));
  return { from: Number(from.toFixed(digits)), to: Number(to.toFixed(digits)) };
}
