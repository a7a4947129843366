/** Numbers of GPUs held of a quota, beside each other for each GPU type. */

import { h } from "../visuals/base/dom.js";
import { amount, clean } from "../visuals/base/words.js";

/** The characters of numbers beside a GPU type. */
const NUMBERS = 9;

/** Cells of one width, in the order of the types: `type`, null for the only one, and `content`. */
export function drawByType(cells) {
  const longest = Math.max(...cells.map(({ type }) => clean(type).length));
  return h(
    "div",
    { class: "st-of-types", style: { "--st-of-width": `${longest + NUMBERS}ch` } },
    cells.map(({ type, content }) => h("div", { key: `of ${type}`, class: "st-of-type" }, content)),
  );
}

/** `3 of 4 a100`; a quota of null is unlimited. */
export function heldOf(held, quota, type) {
  return [
    `${amount(held)} of ${quota === null ? "∞" : amount(quota)}`,
    type && h("span", { key: "type", class: "st-muted" }, ` ${clean(type)}`),
  ];
}
