/** Bookings in words. */

import { clean, count, dated, exact, listed } from "../visuals/base/words.js";

/** Bookings that are shorter show their times to the second. */
export const MINUTE_S = 60;

/** What a booking is: `maintenance of n1`, `booking of 4 GPUs for vision`. */
export function whatOf({ nodes, project, gpus }) {
  if (!project) return `maintenance of ${listed(nodes.map(clean))}`;
  return `booking of ${gpuWords(gpus)} for ${clean(project)}`;
}

/** A number of GPUs, or a table of them by type: `4 GPUs`, `1 t4 GPU and 2 a100 GPUs`. */
export function gpuWords(gpus) {
  if (gpus === null || typeof gpus !== "object") return count(gpus, "GPU");
  const some = Object.entries(gpus).filter(([, number]) => number > 0);
  return listed(some.map(([type, number]) => count(number, `${clean(type)} GPU`)));
}

/** When a booking holds. */
export function timesOf({ repeats, start, end }) {
  const words = end - start < MINUTE_S ? exact : dated;
  return clean(repeats) || `from ${words(start)} until ${words(end)}`;
}

/** What a booking is, and when it holds. */
export function describe(booking) {
  return `${whatOf(booking)}, ${timesOf(booking)}`;
}
