/** The pool at a glance, following the feed of its page. */

import { whileInSight } from "../base/pace.js";
import { renderPoolCard } from "../views/pool_card.js";
import { staleLasts, staleWords } from "./stale.js";

/**
 * Shows the pool in `element`: at once as `output` has it, and live from the feed.
 * @param output `pool`: PoolView, `at`: the time of that state, `mine`: names of the caller's projects
 * @param open opens a job's own page by its id
 * @returns a function that ends the view
 */
export function showPool(element, feed, output, open) {
  const drawing = () => {
    const mine = feed.me?.projects.map(({ name }) => name) ?? output.mine;
    renderPoolCard(element, { pool: feed.pool ?? output.pool, mine, stale: staleWords(feed, output.at) }, { open });
  };
  const view = whileInSight(element, drawing, () => staleLasts(feed));
  const { stop } = feed.watchPool(view.draw);
  return () => {
    view.stop();
    stop();
  };
}
