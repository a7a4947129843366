/** Nodes that the cluster adds when jobs wait for them: how many there are, were asked for, and may be. */

import { h } from "../visuals/base/dom.js";
import { when } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";

const HEADS = ["node group", "type", "GPUs of a node", "nodes", "at most", "asked for"];

/** The table of node groups, nothing where the nodes are what they are; `now`: seconds since the epoch. */
export function drawNodeGroups(groups, now) {
  if (!groups?.length) return null;
  return h(
    "div",
    { key: "node-groups", class: "st-wide-table mt-3" },
    h(
      "table",
      { class: "table st-table", "data-testid": "node-groups" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          HEADS.map((head) => h("th", { key: head, scope: "col" }, head)),
        ),
      ),
      h(
        "tbody",
        {},
        groups.map((group) => drawGroup(group, now)),
      ),
    ),
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
    cells.map((content, place) =>
      h(
        "td",
        { key: HEADS[place + 1], "data-label": HEADS[place + 1], class: content === request ? "st-across" : null },
        content,
      ),
    ),
  );
}
