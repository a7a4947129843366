/** The pool at a glance, following the feed of its page. */

import { h, patch } from "../base/dom.js";
import { stage } from "../base/glyphs.js";
import { clean } from "../base/words.js";
import { renderPoolBar } from "../charts/pool_bar.js";
import { renderPoolGlance } from "../views/pool_glance.js";
import { staleWords } from "./stale.js";

/**
 * Shows the pool in `element`: at once as `output` has it, and live from the feed.
 * @param output `pool`: PoolView, `at`: when it was so, `mine`: names of the caller's projects
 * @param open opens a job's own page by its id
 * @returns what ends it
 */
export function showPool(element, feed, output, open) {
  stage(element, "st-card");
  element.dataset.testid = "pool-card";
  const draw = () => drawPool(element, feed, output, open);
  const { stop } = feed.watchPool(draw);
  draw();
  return stop;
}

function drawPool(element, feed, output, open) {
  const pool = feed.pool ?? output.pool;
  const mine = feed.me?.projects.map((project) => project.name) ?? output.mine;
  const stale = staleWords(feed, output.at);
  patch(
    element,
    h("div", { key: "glance", draw: (node) => renderPoolGlance(node, { pool, mine }) }),
    h("div", { key: "bar", draw: (node) => renderPoolBar(node, { pool, environment: "train" }, { open }) }),
    stale &&
      h("p", { key: "stale", class: "st-notice st-muted", role: "status", "data-testid": "pool-stale" }, clean(stale)),
  );
}
