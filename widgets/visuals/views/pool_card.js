/** The card of the pool: the overview, and each GPU. */

import { h, patch } from "../base/dom.js";
import { stage } from "../base/glyphs.js";
import { clean } from "../base/words.js";
import { renderPoolBar } from "../charts/pool_bar.js";
import { renderPoolGlance } from "./pool_glance.js";

/**
 * Draws the pool's card.
 * @param data `pool`: PoolView; `mine`: names of the viewer's projects; `stale`: why it may be old, in words
 * @param actions `open(id)` opens a job's own page, left out if there is none
 */
export function renderPoolCard(element, { pool, mine, stale = null }, actions = {}) {
  stage(element, "st-card", { testid: "pool-card" });
  patch(
    element,
    h("div", { key: "glance", draw: (node) => renderPoolGlance(node, { pool, mine }) }),
    h("div", { key: "bar", draw: (node) => renderPoolBar(node, { pool, environment: "train" }, actions) }),
    stale &&
      h("p", { key: "stale", class: "st-notice st-muted", role: "status", "data-testid": "pool-stale" }, clean(stale)),
  );
}
