/** The links of GPUs in nodes: NVLink, processor sockets and the nearest network cards, over the GPUs they join. */

import { h } from "../visuals/base/dom.js";
import { clean, count } from "../visuals/base/words.js";

const MOST_NAMES = 4;

/** One drawing for all nodes of the same build; nothing if no node's links are known, or all are equal. */
export function drawTopology(nodes) {
  const known = nodes.filter(({ islands, sockets, cards }) => islands.length || sockets.length > 1 || cards.length);
  const alike = Map.groupBy(known, ({ gpu_type, gpus, islands, sockets, cards }) =>
    JSON.stringify([gpu_type, gpus.map(({ index }) => index), islands, sockets, cards]),
  );
  return (
    known.length > 0 &&
    h(
      "div",
      { key: "topology" },
      h("h3", { class: "st-topology-title" }, "Links between GPUs"),
      h(
        "div",
        { class: "st-topology" },
        [...alike.entries()].map(([shape, of]) => drawShape(shape, of)),
      ),
    )
  );
}

function drawShape(shape, nodes) {
  const [node] = nodes;
  const indices = node.gpus.map(({ index }) => index);
  const rows = [
    [
      "NVLink",
      joined(
        node.islands.filter((gpus) => gpus.length > 1),
        (place) => ({ name: letter(place), words: "linked by NVLink" }),
      ),
    ],
    [
      "Processor socket",
      joined(node.sockets.length > 1 ? node.sockets : [], (place) => ({
        name: String(place + 1),
        words: "on one processor socket",
      })),
    ],
    [
      "Nearest network cards",
      node.cards.map(({ names, gpus, within }) => ({
        gpus,
        name: names.map(clean).join(", "),
        words: within === "switch" ? "behind the same PCIe switch" : "on the same processor socket",
        far: within !== "switch",
      })),
    ],
  ].filter(([, groups]) => groups.length);
  return h(
    "div",
    {
      key: shape,
      class: "st-topology-of st-wide-table",
      tabindex: 0,
      role: "group",
      "aria-label": `Links of the GPUs of ${namesOf(nodes)}`,
      "data-testid": "topology",
    },
    h(
      "table",
      { class: "st-links" },
      h(
        "caption",
        {},
        h("strong", { key: "names" }, namesOf(nodes)),
        h(
          "span",
          { key: "of", class: "st-muted" },
          ` · ${[count(node.gpus.length, "GPU"), clean(node.gpu_type)].filter(Boolean).join(" · ")}`,
        ),
      ),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { key: "gpu", scope: "row" }, "GPU"),
          indices.map((index) => h("th", { key: index, scope: "col", class: "st-links-gpu" }, index)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map(([title, groups]) =>
          h(
            "tr",
            { key: title, "data-testid": "links" },
            h("th", { key: "title", scope: "row" }, title),
            spansOf(indices, groups).map(drawSpan),
          ),
        ),
      ),
    ),
    drawKey(node.cards),
  );
}

/** The meaning of the line around network cards. */
function drawKey(cards) {
  const within = new Set(cards.map((each) => each.within));
  const words = [
    within.has("switch") && "solid: behind the same PCIe switch",
    within.has("socket") && "dashed: on the same processor socket",
  ].filter(Boolean);
  return (
    words.length > 0 && h("p", { key: "key", class: "st-muted st-links-key" }, `Network cards, ${words.join("; ")}.`)
  );
}

function joined(groups, named) {
  return groups.map((gpus, place) => ({ gpus, ...named(place) }));
}

/** The runs of neighbours in one group, in the order of the GPUs: `{ gpus, group }`, without a group if there is none. */
function spansOf(indices, groups) {
  const spans = [];
  for (const index of indices) {
    const group = groups.find(({ gpus }) => gpus.includes(index));
    const last = spans.at(-1);
    if (last && last.group === group) last.gpus.push(index);
    else spans.push({ gpus: [index], group });
  }
  return spans;
}

function drawSpan({ gpus, group }) {
  const words = group && `${group.gpus.length === 1 ? "GPU" : "GPUs"} ${group.gpus.join(", ")}: ${group.words}`;
  return h(
    "td",
    { key: gpus[0], colspan: gpus.length },
    group
      ? h(
          "div",
          { class: group.far ? "st-link st-link-far" : "st-link", title: words },
          group.name,
          h("span", { class: "visually-hidden" }, ` (${words})`),
        )
      : h("div", { class: "st-link-none" }, h("span", { class: "visually-hidden" }, "none")),
  );
}

function letter(place) {
  return String.fromCodePoint("A".codePointAt(0) + (place % 26)) + (place < 26 ? "" : Math.floor(place / 26));
}

function namesOf(nodes) {
  const names = nodes.slice(0, MOST_NAMES).map(({ name }) => clean(name));
  const others = nodes.length - names.length;
  return names.join(", ") + (others ? ` and ${count(others, "more node")}` : "");
}
