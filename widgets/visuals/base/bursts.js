/** Bursts of notifications: when they are one, and how one notice counts them. */

import { count, listed } from "./words.js";

/** Time in which notifications are gathered before they are shown. */
export const GATHERED_MS = 300;
/** Time without notifications after which a burst is over. */
const CALM_MS = 10_000;
/** The number of notifications within that time that are shown one by one. */
const MOST_SINGLE = 3;
/** The number of notifications that are remembered, the latest ones. */
export const MOST_KEPT = 2000;
/** The state in which nothing was shown, see `claimed`. */
export const NOTHING = { claimed: [], singles: [], burst: null };
const COUNTED = {
  failed: "failed",
  ended: "ended",
  "succeeded-soon": "ended",
  paused: "paused",
  resumed: "resumed",
  "time-limit": "near the time limit",
};
const OF_THE_POOL = "of the pool";

/**
 * What a page is to show, and the state of all pages after that: single `notices`, or the `burst` with its counts and the
 * ids of the single ones that it has `replaced`.
 */
export function claimed(notices, now, { claimed: before, singles: shown, burst: present }) {
  const known = new Set(before);
  const heard = new Map(notices.map((notice) => [notice.id, notice]));
  const fresh = [...heard.values()].filter(({ id }) => !known.has(id));
  const all = [...before, ...fresh.map(({ id }) => id)].slice(-MOST_KEPT);
  const singles = shown.filter(({ at }) => now - at < CALM_MS && at <= now);
  const goesOn = present !== null && now - present.at < CALM_MS && present.at <= now;
  const nothing = { notices: [], burst: null, replaced: [] };
  const state = { claimed: all, singles, burst: goesOn ? present : null };
  if (!fresh.length) return { claim: nothing, state };
  if (!goesOn && singles.length + fresh.length <= MOST_SINGLE) {
    const more = fresh.map(({ id, event }) => ({ id, event, at: now }));
    return { claim: { ...nothing, notices: fresh }, state: { ...state, singles: [...singles, ...more] } };
  }
  const counts = { ...(goesOn ? present.counts : {}) };
  for (const { event } of [...(goesOn ? [] : singles), ...fresh]) counts[event] = (counts[event] ?? 0) + 1;
  const burst = { began: goesOn ? present.began : now, at: now, counts };
  const replaced = goesOn ? [] : singles.map(({ id }) => id);
  return { claim: { ...nothing, burst, replaced }, state: { ...state, singles: [], burst } };
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
