/** The nodes of the pool: what each has, how much of it is held, and whether it takes jobs. */

import { h } from "../visuals/base/dom.js";
import { simulatedMark } from "../visuals/base/glyphs.js";
import { meanUse, percentWords } from "../visuals/base/gpu_use.js";
import { clean } from "../visuals/base/words.js";

const HEADS = ["node", "serves", "type", "GPUs", "held", "used", "idle", "takes jobs", "labels"];

/** The table of nodes. `readings`: of their GPUs, by UUID. */
export function drawNodes(nodes, readings) {
  return h(
    "div",
    { key: "nodes", class: "st-wide-table" },
    h(
      "table",
      { class: "table st-table", "data-testid": "nodes" },
      h("thead", {}, h("tr", {}, HEADS.map((head) => h("th", { key: head, scope: "col" }, head)))),
      h("tbody", {}, nodes.map((node) => drawNode(node, readings))),
    ),
  );
}

function drawNode(node, readings) {
  const holding = node.gpus.filter(({ holder }) => holder);
  const held = holding.length;
  const build = node.environment === "build";
  const labels = Object.entries(node.labels).map(([name, value]) => `${clean(name)}: ${clean(value)}`).join(", ");
  const cells = [
    [h("span", { key: "name" }, clean(node.name), " "), simulatedMark(node.simulated)],
    build ? "workspaces" : "train jobs",
    clean(node.gpu_type) || "–",
    node.gpus.length,
    held,
    percentWords(meanUse(holding.map(({ uuid }) => readings.get(uuid)))),
    node.gpus.length - held,
    build ? "no" : node.available ? "yes" : h("strong", { key: "drained" }, "no: drained or lost"),
    [h("span", { key: "labels" }, labels || "–"), node.limits && h("div", { key: "limits", class: "st-muted" }, `Limits of a job: ${clean(node.limits)}`)],
  ];
  return h(
    "tr",
    { key: node.name, "data-testid": "node-row" },
    cells.map((content, place) => (place ? h("td", { key: HEADS[place], "data-label": HEADS[place], class: HEADS[place] === "labels" ? "st-across" : null }, content) : h("th", { key: "node", scope: "row", class: "st-across" }, content))),
  );
}
