/** When GPUs of an attempt were borrowed: as the ledger has it, in words and in parts to draw. */

import { duration } from "./words.js";

/**
 * `2 borrowed`, or if not all the time `2 borrowed for 20 s`, of all GPUs `borrowed for 20 s`, and of a changing number
 * `up to 2 borrowed at a time, for 20 s in all`; empty if never.
 */
export function borrowedWords({ gpus, borrowed = [], started, created, ended }, now) {
  if (!borrowed.length) return "";
  const [from, to] = [started ?? created, ended ?? now];
  const [first] = borrowed;
  if (borrowed.length === 1 && first.start <= from && (first.end ?? now) >= to) return `${first.gpus} borrowed`;
  const seconds = borrowed.reduce((sum, { start, end }) => sum + Math.max(0, (end ?? now) - start), 0);
  const long = `for ${seconds < 1 ? "less than a second" : duration(seconds)}`;
  const most = Math.max(...borrowed.map((span) => span.gpus));
  if (borrowed.some((span) => span.gpus !== most)) return `up to ${most} borrowed at a time, ${long} in all`;
  return most === gpus.length ? `borrowed ${long}` : `${most} borrowed ${long}`;
}

/** The parts of an attempt between two moments in which it borrowed equally: `{ from, to, borrowed }`. */
export function borrowedParts({ borrowed = [] }, from, to) {
  const within = (at) => Math.min(Math.max(at, from), to);
  const parts = [];
  let at = from;
  for (const { start, end, gpus } of borrowed) {
    parts.push({ from: at, to: within(start), borrowed: 0 });
    at = within(end ?? to);
    parts.push({ from: within(start), to: at, borrowed: gpus });
  }
  parts.push({ from: at, to, borrowed: 0 });
  return parts.filter((part) => part.to > part.from);
}
