/** Nodes that the cluster adds for waiting jobs: the present, the requested and the maximum number. */

import { dataCells, dataTable } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { when } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";

const HEADS = ["node group", "type", "GPUs of a node", "nodes", "at most", "asked for"];

/** The table of node groups, nothing if there are none; `now`: seconds since the epoch. */
export function drawNodeGroups(groups, now) {
  if (!groups?.length) return null;
  return dataTable(
    "node-groups",
    HEADS,
    groups.map((group) => drawGroup(group, now)),
    { frame: "st-wide-table mt-3" },
  );
}

function drawGroup({ name, gpu_type: type, gpus, nodes, asked, most, since, error }, now) {
  const request = [
    h("span", { key: "asked" }, asked || "none"),
    asked > 0 &&
      since !== null &&
      h("div", { key: "since", class: "st-muted" }, asked > 1 ? "the first " : null, when(since, now)),
    error &&
      h(
        "div",
        { key: "error", class: "st-muted", "data-testid": "node-group-error" },
        `No more can be asked for: ${clean(error)}`,
      ),
  ];
  const cells = [clean(type) || "–", gpus, nodes, most, request];
  return h(
    "tr",
    { key: name, "data-testid": "node-group" },
    h("th", { key: "name", scope: "row", class: "st-across" }, clean(name)),
    dataCells(HEADS.slice(1), cells, { "asked for": "st-across" }),
  );
}
