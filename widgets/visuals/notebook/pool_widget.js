/** The notebook's view of the pool: traits `pool` (a PoolView) and `me` (a Me). */

import { keepKeys } from "../base/keys.js";
import { renderPoolCard } from "../views/pool_card.js";
import { hearKernel, keepFresh } from "./freshness.js";

const POOL_TRAITS = ["pool", "me"];

export const poolWidget = {
  initialize({ model }) {
    hearKernel(model);
  },
  render({ model, el }) {
    const view = document.createElement("article");
    keepKeys(view);
    el.append(view);
    const draw = () => {
      const pool = model.get("pool");
      const mine = (model.get("me")?.projects ?? []).map(({ name }) => name);
      if (pool?.nodes) renderPoolCard(view, { pool, mine });
    };
    for (const name of POOL_TRAITS) model.on(`change:${name}`, draw);
    const stop = keepFresh(model, () => false);
    draw();
    return () => {
      stop();
      for (const name of POOL_TRAITS) model.off(`change:${name}`, draw);
    };
  },
};

export default poolWidget;
