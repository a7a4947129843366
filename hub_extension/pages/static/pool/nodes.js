/** The nodes of the pool: their resources, the held part, and whether they accept jobs. */

import { dataCells, dataTable } from "../table.js";
import { untilWords } from "../until.js";
import { h } from "../visuals/base/dom.js";
import { simulatedMark, when } from "../visuals/base/glyphs.js";
import { meanUse, percentWords } from "../visuals/base/gpu_use.js";
import { binarySize, clean, count, freeWords } from "../visuals/base/words.js";
import { awayWord } from "../visuals/charts/pool_bar.js";

const HEADS = ["node", "serves", "type", "GPUs", "held", "used", "free", "takes new", "labels"];

/**
 * The table of nodes. `readings`: of their GPUs, by UUID; `drains`: the `NodeDrains` of an admin, null for others;
 * `now`: seconds since the epoch.
 */
export function drawNodes(nodes, readings, drains, now) {
  const heads = drains ? [...HEADS, "actions"] : HEADS;
  return dataTable(
    "nodes",
    heads,
    nodes.map((node) => drawNode(node, readings, drains, now)),
    { frame: "st-wide-table" },
  );
}

function drawNode(node, readings, drains, now) {
  const holding = node.gpus.filter(({ holder }) => holder);
  const held = holding.length;
  const build = node.environment === "build";
  const labels = Object.entries(node.labels)
    .map(([name, value]) => `${clean(name)}: ${clean(value)}`)
    .join(", ");
  const title = [h("span", { key: "name" }, clean(node.name), " "), simulatedMark(node.simulated)];
  const cells = [
    build ? "workspaces" : "train jobs",
    clean(node.gpu_type) || "–",
    node.gpus.length,
    held,
    percentWords(meanUse(holding.map(({ uuid }) => readings.get(uuid)))),
    h("span", { key: "free", class: "st-one-line" }, freeWords(node.free)),
    takesWords(node, now),
    [
      h("span", { key: "labels" }, labels || "–"),
      node.limits && h("div", { key: "limits", class: "st-muted" }, `Limits of a job: ${clean(node.limits)}`),
      eachGpuWords(node) &&
        h("div", { key: "each-gpu", class: "st-muted", "data-testid": "node-each-gpu" }, eachGpuWords(node)),
      rdmaWords(node) && h("div", { key: "rdma", class: "st-muted", "data-testid": "node-rdma" }, rdmaWords(node)),
    ],
  ];
  return h(
    "tr",
    { key: node.name, "data-testid": "node-row" },
    h("th", { key: "node", scope: "row", class: "st-across" }, title),
    dataCells([...HEADS.slice(1), "actions"], [...cells, ...(drains ? [drains.draw(node)] : [])], {
      "takes new": "st-words",
      labels: "st-across",
      actions: "st-across",
    }),
  );
}

/** The cores and memory per GPU of a node: `Each GPU comes with 8 cores and 64 GiB of memory`; empty where unknown. */
function eachGpuWords({ cpus_per_gpu: cores, memory_per_gpu: memory }) {
  const parts = [
    cores && `${cores} ${cores === 1 ? "core" : "cores"}`,
    memory && `${binarySize(memory)} of memory`,
  ].filter(Boolean);
  return parts.length > 0 && `Each GPU comes with ${parts.join(" and ")}`;
}

/** The workers on a node that may have RDMA: `RDMA for 4 workers`, `RDMA` for one per GPU; empty without RDMA. */
function rdmaWords({ rdma_workers: workers, gpus }) {
  return workers > 0 && (workers === gpus.length ? "RDMA" : `RDMA for ${count(workers, "worker")}`);
}

function takesWords(node, now) {
  const what = node.environment === "build" ? "workspaces" : "jobs";
  const ofGpus = node.gpus
    .filter(({ drain }) => drain)
    .map(({ index, drain }) => [
      h("strong", { key: `gpu ${index}` }, `GPU ${index}: drained`),
      drawDrain(drain, now, `gpu-drained-${index}`),
    ]);
  if (!node.drain)
    return [
      node.available ? what : h("strong", { key: "away" }, `no ${what}: ${awayWord(node)}`),
      node.closed_since && h("div", { key: "since", class: "st-muted" }, "began ", when(node.closed_since, now)),
      ofGpus.length > 0 && h("div", { key: "gpus" }, ofGpus),
    ];
  return [
    h("strong", { key: "away" }, `no ${what}: drained`),
    drawDrain(node.drain, now, "node-drained"),
    h("div", { key: "gpus" }, ofGpus),
  ];
}

/** Who drained a node or GPU, when and why. */
function drawDrain({ by, since, why, finish, until, booking }, now, name) {
  return h(
    "div",
    { key: `who ${name}`, class: "st-muted", "data-testid": name },
    `by ${clean(by)}${booking ? " for a booking" : ""} `,
    when(since, now),
    until && `, ${untilWords(until, now)}`,
    why && `: ${clean(why)}`,
    finish && ". Its jobs may finish.",
  );
}
