/** The pool bar: every GPU of the pool as a cell, by node, coloured by its holder's project. */

import { h, patch } from "../base/dom.js";
import { colourOf, emptyState, projectMark, shownState, simulatedMark, stage } from "../base/glyphs.js";
import { gpuWords, readingsOf } from "../base/gpu_use.js";
import { tips } from "../base/tip.js";
import { clean, clock, clockNow, count } from "../base/words.js";

const ROOMY = 48;
const SNUG = 192;

/**
 * Draws the pool bar.
 * @param element the container
 * @param data `pool`: PoolView; `environment`: only nodes of this one; `usage`: PoolUsage, from which each held GPU shows
 *   its utilization
 * @param actions `open(jobId)` for a click on a cell whose job the viewer may see
 */
export function renderPoolBar(element, data, actions = {}) {
  const { pool, environment } = data;
  const nodes = pool.nodes.filter((node) => !environment || node.environment === environment).sort(trainFirst);
  const colours = new Map(pool.projects.map((project) => [project.name, project.colour]));
  const gpus = nodes.reduce((sum, node) => sum + node.gpus.length, 0);
  const scene = { colours, readings: readingsOf(data.usage), shown: data.usage?.shown ?? [], actions };
  const size = gpus <= ROOMY ? "roomy" : gpus <= SNUG ? "snug" : "tight";
  tips(stage(element, "st-pool-bar"));
  patch(
    element,
    nodes.length
      ? groupsOf(nodes, pool.gpu_types ?? []).map(({ title, nodes: of }) => [
          title &&
            h(
              "div",
              {
                key: `type ${title}`,
                class: "st-type-head",
                role: "heading",
                "aria-level": 3,
                "data-testid": "pool-type",
              },
              title,
            ),
          h(
            "div",
            { key: `nodes ${title}`, class: `st-nodes st-${size}` },
            of.map((node) => drawNode(node, scene)),
          ),
        ])
      : emptyState("This pool has no GPUs yet.", "They show here as soon as a node reports them."),
    nodes.length > 0 && drawLegend(data, nodes, scene.readings),
  );
}

/** The nodes by environment and GPU type if train or build GPUs are of several types; else in one group. */
function groupsOf(nodes, order) {
  const groups = Map.groupBy(nodes, (node) => `${node.environment} ${node.gpu_type}`);
  const several = (environment) =>
    new Set(nodes.filter((node) => node.environment === environment && node.gpus.length).map((node) => node.gpu_type))
      .size > 1;
  if (!several("train") && !several("build")) return [{ title: "", nodes }];
  const place = ({ environment, gpu_type: type }) =>
    (environment === "train" ? 0 : 1000) + (order.includes(type) ? order.indexOf(type) : order.length);
  return [...groups.values()]
    .sort(([one], [other]) => place(one) - place(other))
    .map((of) => ({
      title: `${clean(of[0].gpu_type) || "GPUs"} · ${of[0].environment} · ${count(
        of.reduce((sum, node) => sum + node.gpus.length, 0),
        "GPU",
      )}`,
      nodes: of,
    }))
    .filter(({ nodes: of }) => of.some((node) => node.gpus.length));
}

function trainFirst(one, other) {
  return (other.environment === "train") - (one.environment === "train");
}

function drawNode(node, scene) {
  const held = node.gpus.filter((gpu) => gpu.holder).length;
  return h(
    "section",
    { key: `${node.environment} ${node.name}`, class: node.available ? "st-node" : "st-node st-lost" },
    h(
      "header",
      { key: "header" },
      h("strong", {}, clean(node.name)),
      " ",
      h("span", { class: "st-muted" }, nodeWords(node, held)),
      " ",
      simulatedMark(node.simulated),
    ),
    h(
      "div",
      { key: "cells", class: "st-runs", role: "list", "data-walk": "", "aria-label": `GPUs of ${clean(node.name)}` },
      runsOf(node).map((run, place) => drawRun(node, run, place, scene)),
    ),
  );
}

function nodeWords(node, held) {
  const words = [count(node.gpus.length, "GPU")];
  if (node.name !== node.environment) words.push(node.environment);
  if (node.gpu_type && node.gpu_type !== "simulated") words.splice(1, 0, clean(node.gpu_type));
  words.push(node.available ? `${held} held` : `${awayWord(node)}: nothing new starts here`);
  return words.join(" · ");
}

/** Why nothing new starts on a node; `closure` are Kubernetes' reasons. */
export function awayWord(node) {
  return node.drain ? "drained" : node.closure || "lost or closed";
}

/** Who drained a node or GPU, for what, until when, and why. */
export function drainWords({ by, why, until, booking }) {
  const what = booking ? " for a booking" : "";
  const end = until ? ` until ${clock(until, clockNow())}` : "";
  return `Drained by ${clean(by)}${what}${end}${why ? `: ${clean(why)}` : ""}`;
}

/** The condition of a free GPU. */
function freeWord(node, { drain }) {
  if (drain) return "drained";
  return node.available ? "idle" : awayWord(node);
}

function runsOf(node) {
  const runs = [];
  for (const gpu of node.gpus) {
    const last = runs.at(-1);
    if (last && sameHolder(last[0], gpu)) last.push(gpu);
    else runs.push([gpu]);
  }
  return runs;
}

function sameHolder(one, other) {
  if (!one.holder || !other.holder)
    return !one.holder && !other.holder && one.reserved_for === other.reserved_for && !one.drain === !other.drain;
  const parts = ["kind", "user", "project", "job", "name"];
  return parts.every((part) => one.holder[part] === other.holder[part]);
}

function drawRun(node, run, place, scene) {
  const caption = captionOf(node, run[0]);
  return h(
    "div",
    { key: `from ${run[0].index}`, class: "st-run", style: { "--st-span": run.length }, role: "presentation" },
    h(
      "div",
      { key: "cells", class: "st-cells", role: "presentation" },
      run.map((gpu, at) => drawCell(node, gpu, place === 0 && at === 0, scene)),
    ),
    h("div", { key: "caption", class: "st-caption", "aria-hidden": "true" }, caption),
  );
}

function captionOf(node, gpu) {
  const { holder } = gpu;
  if (!holder) return gpu.reserved_for && !gpu.drain ? `for ${clean(gpu.reserved_for)}` : freeWord(node, gpu);
  if (holder.kind === "foreign") return "in use";
  return clean(holder.name && holder.kind === "job" ? holder.name : holder.user || holder.project);
}

function drawCell(node, gpu, first, { colours, readings, shown, actions }) {
  const reading = readings.get(gpu.uuid);
  const words = cellWords(node, gpu, reading && gpuWords(reading, shown));
  const job = gpu.holder?.kind === "job" && gpu.holder.job;
  return h(
    "div",
    {
      key: gpu.index,
      class: `st-cell ${cellClass(gpu)}`,
      style: colourOf(colours.get(gpu.holder?.project || gpu.reserved_for)),
      role: "listitem",
      tabindex: first ? 0 : -1,
      "aria-label": words.replaceAll("\n", ". "),
      "data-tip": words,
      "data-testid": "pool-cell",
      "data-gpu": `${node.name}/${gpu.index}`,
      "data-held": gpu.holder ? (gpu.holder.borrowed ? "borrowed" : gpu.holder.kind) : freeWord(node, gpu),
      "data-project": gpu.holder?.project || null,
      "data-open": job && actions.open ? "" : null,
      on: {
        click: () => job && actions.open?.(job),
        keydown: (event) => event.key === "Enter" && job && actions.open?.(job),
      },
    },
    gpu.holder && drawCellUse(reading),
  );
}

/** The utilization of a held GPU, as a bar at the lower edge of its cell. */
function drawCellUse(reading) {
  if (!reading || reading.lost || !Number.isFinite(reading.utilization)) return null;
  return h(
    "span",
    { key: "use", class: "st-cell-use", "data-testid": "cell-use", "aria-hidden": "true" },
    h("span", { style: { width: `${Math.round(100 * reading.utilization)}%` } }),
  );
}

function cellClass({ holder, reserved_for: reserved, drain }) {
  if (!holder) return drain ? "st-drained" : reserved ? "st-waiting" : "st-idle";
  if (holder.kind === "foreign") return "st-taken";
  const moving = holder.state === "pausing" || holder.state === "starting" ? ` st-${holder.state}` : "";
  if (holder.kind === "workspace") return `st-built${moving}`;
  return `${holder.borrowed ? "st-hatched" : "st-solid"}${moving}`;
}

function cellWords(node, gpu, used) {
  const held = gpu.holder || node.available ? holderWords(gpu.holder) : "Held by nobody";
  const lines = [`GPU ${gpu.index} of ${clean(node.name)}${node.simulated ? " (simulated)" : ""}`, held];
  if (used) lines.push(used);
  if (gpu.reserved_for) lines.push(`Goes to ${clean(gpu.reserved_for)} next`);
  if (gpu.drain) lines.push(drainWords(gpu.drain));
  if (!node.available) lines.push(`The node is ${awayWord(node)}`);
  if (node.drain) lines.push(drainWords(node.drain));
  return lines.join("\n");
}

function holderWords(holder) {
  if (!holder) return "Idle";
  if (holder.kind === "foreign") return `Used by ${clean(holder.name) || "something"} outside the pool`;
  if (holder.kind === "workspace") return `${clean(holder.user)}'s build notebook`;
  const whose = `${clean(holder.user)} in project ${clean(holder.project)}`;
  const what = holder.name ? `${clean(holder.name)}: ` : "";
  const borrowed = holder.borrowed ? ", borrowed" : "";
  return `${what}${whose}${borrowed}${holder.state ? ` (${shownState(holder)})` : ""}`;
}

function drawLegend({ pool, environment }, nodes, readings) {
  const cells = nodes.flatMap((node) => node.gpus);
  const holding = pool.projects
    .map((project) => ({
      project,
      held: cells.filter((gpu) => gpu.holder?.kind === "job" && gpu.holder.project === project.name),
    }))
    .filter(({ held }) => held.length);
  const free = [
    ["train", "", pool.train_free],
    ["build", " for workspaces", pool.build_free],
  ].filter(([of]) => !environment || environment === of);
  const build = cells.filter((gpu) => gpu.holder?.kind === "workspace").length;
  const borrowed = cells.some((gpu) => gpu.holder?.borrowed);
  const crossed = cells.some((gpu) => gpu.drain && !gpu.holder);
  return h(
    "div",
    { key: "legend", class: "st-legend" },
    holding.map(({ project, held }) =>
      h("span", { key: `held ${project.name}` }, projectMark(project.name, project.colour), ` ${held.length}`),
    ),
    build > 0 && legendKey("build", "st-built", `workspaces ${build}`),
    borrowed && legendKey("borrowed", "st-hatched", "hatched: borrowed"),
    free.map(([, whose, counts]) =>
      Object.entries(counts ?? {}).map(([what, number]) =>
        legendKey(
          `${what}${whose}`,
          crossed && what === "drained" ? "st-drained" : "st-idle st-idle-key",
          `${what}${whose} ${number}`,
        ),
      ),
    ),
    cells.some((gpu) => gpu.holder && Number.isFinite(readings.get(gpu.uuid)?.utilization)) &&
      h("span", { key: "use" }, "bar in a cell: how much of the GPU is used"),
  );
}

function legendKey(key, classes, words) {
  return h(
    "span",
    { key },
    h("span", { class: `st-key ${classes}`, style: colourOf(null), "aria-hidden": "true" }),
    ` ${words}`,
  );
}
