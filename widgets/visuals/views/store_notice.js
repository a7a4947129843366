/** The notice that the pool accepts and starts nothing, because its store takes no writes. */

import { h } from "../base/dom.js";
import { asSentence } from "../base/words.js";

const MEANWHILE =
  "Running jobs continue. Waiting jobs keep their places, but none starts, and no submission or change is accepted.";
const ADMINS = "Correct the cause: the service then continues by itself.";
const OTHERS = "An administrator of this hub has to correct that; then send it again.";

/** The notice for an administrator or another viewer, as a description; null as long as the pool works. */
export function storeNotice(pool, isAdmin) {
  if (!pool?.store_trouble) return null;
  const words = [asSentence(pool.store_trouble), MEANWHILE, isAdmin ? ADMINS : OTHERS].join(" ");
  return h("p", { key: "store", class: "st-banner", role: "alert", "data-testid": "store-trouble" }, words);
}
