/** The sentences of a page while it has no contact with the pool. */

import { ago, clockNow } from "../base/words.js";

const AWAY = "The pool does not answer. Running jobs continue.";
const STALE_S = 5;

/** What a page says while an answer is overdue. */
export const OVERDUE =
  "An answer of the pool is overdue. The pool is busy, or this browser has no free connection to it: end downloads from this address, and close tabs of it that still load.";

const IN_CONTACT = new Set(["live", "asking", "waiting"]);

/** Whether the feed has the pool's present state and receives its changes. */
export function isLive({ connection }) {
  return IN_CONTACT.has(connection.state);
}

/** The reason why there is no contact with the pool. */
export function awayWords({ connection }) {
  return connection.problem?.message ?? AWAY;
}

/** The time of the displayed data: now, or while the pool is away the last contact; `at` if there was none. */
export function shownAt(feed, at) {
  return feed.connection.state === "away" ? (feed.heardAt ?? at) : clockNow();
}

/** How long `staleWords` stay true, in seconds; null while there is contact. */
export function staleLasts(feed) {
  return feed.connection.state === "away" ? STALE_S : null;
}

/** Why the displayed state may be old, or null if it is not. `at`: its time, if the pool has not answered yet. */
export function staleWords(feed, at) {
  if (feed.connection.state === "waiting") return OVERDUE;
  if (feed.connection.state !== "away") return null;
  return `${awayWords(feed)} It is shown as it was ${ago(feed.heardAt ?? at, clockNow())}.`;
}
