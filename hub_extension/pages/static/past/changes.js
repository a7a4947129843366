/** The controls of another pool: nodes by type, quotas by project, and rules. */

import { h } from "../visuals/base/dom.js";
import { amount, clean, count } from "../visuals/base/words.js";

const MOST_NODES = 16;
const ORDERS = { "least-served": "least GPU time first", "first-come": "first come, first served" };
const SURPLUSES = { fair: "by priority and weight", "least-served": "to the jobs that had least" };

/** The changes of nothing, to begin with. */
export function noChanges() {
  return { nodes: {}, quota: {}, order: "", surplus: "" };
}

/** The changes as the API takes them. */
export function changesAsked({ nodes, quota, order, surplus }) {
  const kept = Object.entries(nodes).filter(([, number]) => number);
  return {
    ...(kept.length && { nodes: Object.fromEntries(kept.map(([type, number]) => [type, { count: number }])) }),
    ...(Object.keys(quota).length && { quota }),
    ...(order && { order }),
    ...(surplus && { surplus }),
  };
}

/** The changes in words, for the heading of their answer. */
export function changeWords({ nodes, quota, order, surplus }) {
  const words = Object.entries(nodes)
    .filter(([, number]) => number)
    .map(([type, number]) => nodeWords(Math.abs(number), number > 0 ? "more" : "fewer", clean(type)));
  for (const [project, types] of Object.entries(quota))
    for (const [type, number] of Object.entries(types))
      words.push(`quota of ${clean(project)}: ${amount(number)} ${clean(type)}`);
  if (order) words.push(ORDERS[order]);
  if (surplus) words.push(`idle GPUs ${SURPLUSES[surplus]}`);
  return words.join(", ");
}

function nodeWords(number, which, type) {
  return `${amount(number)} ${which} ${number === 1 ? "node" : "nodes"} of ${type}`;
}

/** The changes without those that the forecast of the present cannot answer. */
export function changesOfNow(changes) {
  const added = Object.entries(changes.nodes).filter(([, number]) => number > 0);
  return { ...noChanges(), nodes: Object.fromEntries(added), quota: changes.quota };
}

/**
 * Draws the controls. `pool` has the subjects of changes, `changes` the chosen ones; `change` gets each new value.
 * With `now` only what the forecast of the present can answer is offered.
 */
export function drawChanges(pool, changes, { now, change }) {
  return h(
    "form",
    { key: "changes", class: "st-whatif-changes", "data-testid": "changes", on: { submit: (e) => e.preventDefault() } },
    pool.whole && drawNodes(pool, changes, now, change),
    drawQuotas(pool, changes, change),
    pool.whole && !now && drawRules(pool, changes, change),
  );
}

function drawNodes(pool, changes, now, change) {
  const rows = Object.entries(pool.nodes).map(([type, number]) => {
    const more = changes.nodes[type] ?? 0;
    const words = more ? `${amount(number)} → ${amount(number + more)}` : amount(number);
    return slider({
      key: `nodes ${type}`,
      label: `Nodes of ${clean(type)}`,
      hint: `${count(pool.gpus[type], "GPU")} each`,
      value: more,
      least: now ? 0 : -number,
      most: MOST_NODES,
      words,
      pick: (value) => change({ nodes: { ...changes.nodes, [type]: value } }),
    });
  });
  return group("nodes", "Nodes", rows);
}

function drawQuotas(pool, changes, change) {
  const types = Object.keys(pool.nodes);
  const total = (type) => (pool.nodes[type] + Math.max(0, changes.nodes[type] ?? 0)) * pool.gpus[type];
  const rows = Object.entries(pool.quota).flatMap(([project, own]) =>
    types.map((type) => {
      const before = own[type];
      if (before === null) return null;
      const value = changes.quota[project]?.[type] ?? before;
      return slider({
        key: `quota ${project} ${type}`,
        label: types.length > 1 ? `${clean(project)}, ${clean(type)}` : clean(project),
        value,
        least: 0,
        most: Math.max(total(type), before),
        words: value === before ? amount(before) : `${amount(before)} → ${amount(value)}`,
        pick: (number) => change({ quota: edited(changes.quota, project, type, number, before) }),
      });
    }),
  );
  return group("quotas", "Quotas in GPUs", rows);
}

/** The edits of quotas with one more, or without it if the quota is what it was. */
function edited(quota, project, type, value, before) {
  const own = { ...quota[project], [type]: value };
  if (value === before) delete own[type];
  const all = { ...quota, [project]: own };
  if (!Object.keys(own).length) delete all[project];
  return all;
}

function drawRules(pool, changes, change) {
  return group("rules", "Rules", [
    choice("order", "Order of jobs", ORDERS, pool.order, changes.order, (order) => change({ order })),
    choice("surplus", "Idle GPUs go", SURPLUSES, pool.surplus, changes.surplus, (surplus) => change({ surplus })),
  ]);
}

function group(key, title, rows) {
  return h("fieldset", { key, class: "st-whatif-group", "data-testid": `group-${key}` }, h("legend", {}, title), rows);
}

function slider({ key, label, hint, value, least, most, words, pick }) {
  const id = `whatif-${key.replaceAll(/\W+/g, "-")}`;
  return h(
    "div",
    { key, class: "st-whatif-row" },
    h("label", { for: id }, label, hint && h("span", { class: "st-muted" }, `, ${hint}`)),
    h("input", {
      id,
      type: "range",
      class: "form-range",
      min: least,
      max: most,
      step: 1,
      value,
      "aria-valuetext": words,
      on: { input: (event) => pick(Number(event.target.value)) },
    }),
    h("output", { for: id }, words),
  );
}

function choice(key, label, options, present, value, pick) {
  const id = `whatif-${key}`;
  const shown = value || present;
  return h(
    "div",
    { key, class: "st-whatif-row st-whatif-choice" },
    h("label", { for: id }, label),
    h(
      "select",
      {
        id,
        class: "form-select",
        value: shown,
        on: { change: ({ target }) => pick(target.value === present ? "" : target.value) },
      },
      Object.entries(options).map(([name, words]) =>
        h(
          "option",
          { key: name, value: name, selected: name === shown },
          name === present ? `${words} (as now)` : words,
        ),
      ),
    ),
  );
}
