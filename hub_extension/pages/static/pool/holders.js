/** Holders of GPUs: a line for each job, workspace and sweep, with its GPUs and their use. */

import { jobPath, site } from "../site.js";
import { dataTable } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { emptyState, projectMark, stateMark } from "../visuals/base/glyphs.js";
import { meanUse, percentWords } from "../visuals/base/gpu_use.js";
import { clean, count } from "../visuals/base/words.js";

const HEADS = ["who", "what", "state", "GPUs held", "used", "where"];
const CLASSES = { who: "st-words", what: "st-words", where: "st-words" };
const NUMBER_OF_TRIAL = / #\d+$/;

/** The table of holders, most GPUs first. `readings`: of the GPUs, by UUID; `colours`: of the projects, by name. */
export function drawHolders(pool, readings, colours) {
  const entries = holdersOf(pool.nodes);
  if (!entries.length) return emptyState("No GPU is held.", nextWords(pool));
  return dataTable(
    "holders",
    HEADS,
    entries.map((entry) => drawEntry(entry, readings, colours)),
  );
}

function nextWords(pool) {
  if (pool.train_free.idle) return "A job submitted now starts at once, even beyond its project's quota.";
  return "A job submitted now waits until a node takes jobs again.";
}

/** The holders; all trials of a sweep are one entry, and so are an owner's hidden jobs on a node. */
function holdersOf(nodes) {
  const found = new Map();
  for (const node of nodes) {
    for (const { index, uuid, holder } of node.gpus) {
      if (!holder) continue;
      const key = keyOf(holder, node.name);
      const entry = found.get(key) ?? {
        key,
        holder,
        trials: new Set(),
        places: new Map(),
        uuids: [],
        gpus: 0,
        borrowed: 0,
        simulated: false,
      };
      if (holder.sweep) entry.trials.add(holder.job);
      if (holder.state === "running") entry.holder = holder;
      entry.gpus += 1;
      entry.uuids.push(uuid);
      entry.borrowed += holder.borrowed ? 1 : 0;
      entry.simulated ||= node.simulated;
      entry.places.set(node.name, [...(entry.places.get(node.name) ?? []), index]);
      found.set(key, entry);
    }
  }
  return [...found.values()].sort((one, other) => other.gpus - one.gpus);
}

function keyOf({ kind, user, project, job, sweep, name }, node) {
  const what = sweep ? [sweep] : [job, name, kind === "job" && !job ? node : ""];
  return [kind, user, project, ...what].join("\n");
}

function drawEntry({ key, holder, trials, places, uuids, gpus, borrowed, simulated }, readings, colours) {
  const where = [...places].map(([node, indices]) => `${clean(node)}: ${indices.join(", ")}`).join("; ");
  const cells = [
    whoWords(holder, colours),
    whatWords(holder, trials.size),
    holder.state && holder.kind === "job" ? stateMark(holder) : "",
    [
      count(gpus, "GPU"),
      borrowed > 0 && h("span", { key: "borrowed", class: "st-muted" }, `, ${borrowed} borrowed`),
      simulated && h("span", { key: "simulated", class: "st-muted" }, ", simulated"),
    ],
    percentWords(meanUse(uuids.map((uuid) => readings.get(uuid)))),
    where,
  ];
  return h(
    "tr",
    { key, "data-testid": "holder-row" },
    cells.map((content, at) =>
      h(
        "td",
        {
          key: HEADS[at],
          class: CLASSES[HEADS[at]],
          "data-label": HEADS[at],
          "data-testid": `holder-${HEADS[at].split(" ")[0].toLowerCase()}`,
        },
        content,
      ),
    ),
  );
}

function whoWords({ kind, project, user }, colours) {
  if (kind !== "job") return clean(user) || "–";
  return [projectMark(project, colours[project] ?? null), user && user !== project ? ` · ${clean(user)}` : ""];
}

function whatWords(holder, trials) {
  if (holder.kind === "workspace") return "workspace";
  if (holder.kind === "foreign") return `${clean(holder.name) || "something"} outside the pool`;
  if (holder.sweep)
    return [
      jobLink(holder.sweep, holder.name.replace(NUMBER_OF_TRIAL, "")),
      h("span", { key: "trials", class: "st-muted" }, `, ${count(trials, "trial")}`),
    ];
  if (holder.job) return jobLink(holder.job, holder.name);
  return h("span", { class: "st-muted" }, holder.user === site.user ? "a job" : "a job of another project");
}

function jobLink(id, name) {
  return h("a", { key: "job", href: jobPath(id) }, clean(name) || id);
}
