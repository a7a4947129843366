/** What a page says while it hears nothing from the pool. */

import { ago, clockNow } from "../base/words.js";

const AWAY = "The pool does not answer. Running jobs go on.";

/** Whether what the feed has comes from the pool and goes on to. */
export function isLive({ connection }) {
  return connection.state === "live" || connection.state === "asking";
}

/** Why nothing is heard from the pool. */
export function awayWords({ connection }) {
  return connection.problem?.message ?? AWAY;
}

/** Why what is shown may be old, or null while it is not. `at` is when it was so, if the pool was never heard. */
export function staleWords(feed, at) {
  if (feed.connection.state !== "away") return null;
  return `${awayWords(feed)} It is shown as it was ${ago(feed.heardAt ?? at, clockNow())}.`;
}
