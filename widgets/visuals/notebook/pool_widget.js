/** The notebook's view of the pool: traits `pool` (a PoolView) and `me` (a Me). */

import { h, patch } from "../base/dom.js";
import { stage } from "../base/glyphs.js";
import { renderPoolBar } from "../charts/pool_bar.js";
import { renderPoolGlance } from "../views/pool_glance.js";
import { hearKernel, keepFresh } from "./freshness.js";

const POOL_TRAITS = ["pool", "me"];

export const poolWidget = {
  initialize({ model }) {
    hearKernel(model);
  },
  render({ model, el }) {
    const view = stage(document.createElement("article"), "st-card");
    view.dataset.testid = "pool-card";
    el.append(view);
    const draw = () => {
      const pool = model.get("pool");
      if (!pool?.nodes) return;
      const mine = (model.get("me")?.projects ?? []).map((project) => project.name);
      patch(
        view,
        h("div", { key: "glance", draw: (node) => renderPoolGlance(node, { pool, mine }) }),
        h("div", { key: "bar", draw: (node) => renderPoolBar(node, { pool, environment: "train" }) }),
      );
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
