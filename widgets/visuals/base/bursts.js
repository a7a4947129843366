/** Bursts of notifications: when they are one, and how one notice counts them. */

import { count, listed } from "./words.js";

/** Time in which notifications are gathered before they are shown. */
export const GATHERED_MS = 300;
/** The number of notifications that are shown one by one. */
export const MOST_SINGLE = 3;
const COUNTED = {
  failed: "failed",
  ended: "ended",
  "succeeded-soon": "ended",
  paused: "paused",
  resumed: "resumed",
  "time-limit": "near the time limit",
};
const OF_THE_POOL = "of the pool";

/** The number of notifications of each event. */
export function countsOf(notices) {
  const events = Map.groupBy(notices, ({ event }) => event);
  return Object.fromEntries([...events].map(([event, those]) => [event, those.length]));
}

/** `12 events of your jobs: 9 failed and 3 ended.` for the number of each event. */
export function burstWords(counts) {
  const parts = new Map();
  for (const [event, number] of Object.entries(counts)) {
    const words = COUNTED[event] ?? OF_THE_POOL;
    parts.set(words, (parts.get(words) ?? 0) + number);
  }
  const all = [...parts.values()].reduce((sum, number) => sum + number, 0);
  const whose = parts.has(OF_THE_POOL) ? "" : " of your jobs";
  return `${count(all, "event")}${whose}: ${listed([...parts].map(([words, number]) => `${number} ${words}`))}.`;
}
