/** Refusals of changes, in words. */

import { h } from "../visuals/base/dom.js";
import { clean } from "../visuals/base/words.js";

/** A refusal, shown where the change was made. */
export function refusalWords(refusal, testid) {
  return h(
    "span",
    { key: "refusal", class: "st-refusal", role: "alert", "data-testid": testid },
    clean(refusal.message),
  );
}
