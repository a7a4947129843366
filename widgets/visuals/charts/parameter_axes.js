/** Axes for the parameters of trials: numbers on a line or by orders of magnitude, everything else as categories. */

import { parameterWords } from "../base/sweep_words.js";
import { own } from "../base/trials.js";
import { markWords, naturally } from "../base/words.js";
import { fraction } from "./scale.js";

const LOG_FROM = 100;
const MOST_MARKED = 8;

/**
 * The axis of some values: `place(value)` from 0 to 1 or null for a value that is not on it, `marks` with their words,
 * and whether it is logarithmic. Null if all values are the same.
 */
export function axisOf(values) {
  const given = values.filter((value) => value !== undefined);
  if (given.length && given.every((value) => Number.isFinite(value))) return numberAxis(given);
  return categoryAxis(given);
}

/** The parameters that differ among rows, each with its axis; those that the most rows have come first. */
export function differingParameters(rows, names) {
  const found = names.map((name) => {
    const values = rows.map((row) => own(row.parameters, name));
    return { name, values, axis: axisOf(values), known: values.filter((value) => value !== undefined).length };
  });
  return found.filter(({ axis }) => axis !== null).sort((one, other) => other.known - one.known);
}

function numberAxis(values) {
  const low = values.reduce((least, value) => Math.min(least, value));
  const high = values.reduce((most, value) => Math.max(most, value));
  if (!(high > low)) return null;
  const logarithmic = low > 0 && high / low >= LOG_FROM;
  const along = logarithmic ? Math.log10 : (value) => value;
  const place = (value) => (Number.isFinite(value) ? fraction(along(value), along(low), along(high)) : null);
  const middle = logarithmic ? Math.sqrt(low) * Math.sqrt(high) : low / 2 + high / 2;
  const marked = [low, middle, high];
  const words = markWords(marked.map(brief));
  const marks = marked.map((value) => ({ at: place(value), words: words(brief(value)) }));
  return { place, marks, logarithmic };
}

function brief(value) {
  return Number(value.toPrecision(3));
}

function categoryAxis(values) {
  const kinds = new Map(values.map((value) => [kindOf(value), value]));
  if (kinds.size < 2) return null;
  const order = [...kinds].toSorted(([, one], [, other]) => naturally(one, other));
  const places = new Map(order.map(([kind], index) => [kind, index / (order.length - 1)]));
  const every = Math.ceil(order.length / MOST_MARKED);
  const marks = order
    .map(([kind, value]) => ({ at: places.get(kind), words: parameterWords(value) }))
    .filter((_, index) => index % every === 0);
  return { place: (value) => places.get(kindOf(value)) ?? null, marks, logarithmic: false };
}

function kindOf(value) {
  return `${typeof value} ${value}`;
}
