/** The nodes as cells, filled by the part of their GPUs that is held; drained and lost ones are marked. */

import { site } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { emptyState } from "../visuals/base/glyphs.js";
import { amount, clean, count, freeWords } from "../visuals/base/words.js";
import { awayWord, drainWords } from "../visuals/charts/pool_bar.js";

/** Number of nodes up to which their cells are large. */
const FEW = 24;

/** The cells of all nodes with GPUs, by environment and type, and the drained and frozen parts in words. */
export function drawNodeCells(pool) {
  const nodes = pool.nodes.filter(({ gpus }) => gpus.length);
  if (!nodes.length) return emptyState("This pool has no GPUs yet.", "They show here as soon as a node reports them.");
  const groups = Map.groupBy(nodes, (node) => `${node.environment} ${node.gpu_type}`);
  return h(
    "div",
    { key: "nodes", class: nodes.length <= FEW ? "st-home-few" : null, "data-testid": "home-nodes" },
    [...groups.values()].map(drawGroup),
    h("p", { key: "closed", class: "st-muted st-home-closed" }, closedWords(pool, nodes)),
  );
}

function drawGroup(nodes) {
  const [{ environment, gpu_type: type }] = nodes;
  const gpus = nodes.reduce((sum, node) => sum + node.gpus.length, 0);
  const title = `${clean(type) || "GPUs"} · ${environment} · ${count(nodes.length, "node")}, ${count(gpus, "GPU")}`;
  return h(
    "div",
    { key: `${environment} ${type}` },
    h(
      "h3",
      { key: "title", class: "st-home-type" },
      title,
      environment === "build" && [
        " ",
        h(
          "span",
          { key: "workspaces", class: "st-one-line" },
          "· ",
          h("a", { href: `${site.prefix}workspaces?whose=all` }, "workspaces"),
        ),
      ],
    ),
    h(
      "div",
      { key: "cells", class: "st-home-cells", role: "list", "data-walk": "", "aria-label": title },
      nodes.map((node, at) => drawCell(node, at === 0)),
    ),
  );
}

function drawCell(node, first) {
  const held = node.gpus.filter(({ holder }) => holder).length;
  const words = cellWords(node, held);
  const state = node.drain ? " st-drained" : node.available ? "" : " st-home-away";
  const open = () => window.location.assign(`${site.prefix}pool`);
  return h(
    "div",
    {
      key: node.name,
      class: `st-home-cell${state}`,
      role: "listitem",
      tabindex: first ? 0 : -1,
      "aria-label": words.replaceAll("\n", ". "),
      "data-tip": words,
      "data-testid": "home-node",
      on: { click: open, keydown: (event) => event.key === "Enter" && open() },
    },
    h("span", {
      key: "held",
      class: "st-home-fill",
      style: { height: `${Math.round((100 * held) / node.gpus.length)}%` },
    }),
    node.gpus.some(({ drain }) => drain) && h("span", { key: "part", class: "st-home-dot" }),
  );
}

function cellWords(node, held) {
  const drained = node.gpus.filter(({ drain }) => drain).map(({ index }) => index);
  const lines = [
    `${clean(node.name)}${node.simulated ? " (simulated)" : ""}`,
    `${held} of ${count(node.gpus.length, "GPU")} held, ${freeWords(node.free)}`,
  ];
  if (node.drain) lines.push(drainWords(node.drain));
  else if (!node.available) lines.push(`The node is ${awayWord(node)}`);
  if (drained.length) lines.push(`Drained: GPU ${drained.join(", ")}`);
  return lines.join("\n");
}

function closedWords({ projects }, nodes) {
  const drained = nodes.filter(({ drain }) => drain).length;
  const gpus = nodes.reduce((sum, node) => sum + node.gpus.filter(({ drain }) => drain).length, 0);
  const lost = nodes.filter(({ available, drain }) => !available && !drain).length;
  const frozen = projects.filter(({ name, freeze }) => freeze?.project === name).length;
  const parts = [
    drained && `${count(drained, "node")} drained`,
    gpus && `${count(gpus, "single GPU")} drained`,
    lost && `${count(lost, "node")} lost or closed`,
    frozen && `${count(frozen, "project")} frozen`,
  ].filter(Boolean);
  if (parts.length) return `${parts.join(", ")}.`;
  if (nodes.length === 1) return "The node takes work.";
  if (nodes.length === 2) return "Both nodes take work.";
  return `All ${amount(nodes.length)} nodes take work.`;
}
