/** Tables of the pages: a head of names, and a row for each entry. */

import { h } from "./visuals/base/dom.js";

/** The head: names of the columns. That of buttons is empty. */
export function tableHead(heads) {
  const words = (head) => head || h("span", { class: "st-hidden" }, "actions");
  const names = heads.map((head) => h("th", { key: head, scope: "col" }, words(head)));
  return h("thead", {}, h("tr", {}, names));
}

/**
 * A table that scrolls in its `frame`, the class of an element.
 * @param name for tests, and its key
 * @param heads names of the columns
 * @param rows as descriptions
 * @param classes further ones of the table
 */
export function dataTable(name, heads, rows, { classes = "", frame = "table-responsive" } = {}) {
  const props = { class: `table st-table ${classes}`.trim(), "data-testid": name };
  return h("div", { key: name, class: frame }, h("table", props, tableHead(heads), h("tbody", {}, rows)));
}

/**
 * The cells of a row, each with the name of its column, which a narrow window shows beside it.
 * @param classes of cells, by the names of their columns; `st-across` takes a whole line there
 */
export function dataCells(heads, cells, classes = {}) {
  return cells.map((cell, at) => {
    const head = heads[at];
    return h("td", { key: head, "data-label": head, class: classes[head] }, cell);
  });
}
