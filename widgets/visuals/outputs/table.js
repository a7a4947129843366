/** Comma- and tab-separated values: parsed by RFC 4180, shown as a table of bounded size. */

import { h } from "../base/dom.js";
import { clean, count, shortened } from "../base/words.js";

const MOST_ROWS = 100;
const MOST_COLUMNS = 30;
const MOST_CHARACTERS = 200;
const SEPARATORS = { csv: [",", ";", "\t"], tsv: ["\t"] };
const NUMBER = /^\s*(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|[+-]?inf(?:inity)?)?\s*$/i;

/**
 * Reads the table of a file; its first non-empty line has the names of the columns.
 * @param ending `csv`, whose separator is found in its first line, or `tsv`
 * @returns `head`: names; `rows`: lists of cells, the first rows and columns only; `rowCount` and `columnCount`: of
 *   all. Null for an empty file.
 */
export function readTable(text, ending) {
  const separator = separatorOf(text, SEPARATORS[ending]);
  const kept = [];
  let lines = 0;
  let columnCount = 0;
  for (const { cells, width } of linesOf(text, separator)) {
    if (kept.length <= MOST_ROWS) kept.push(cells);
    lines += 1;
    columnCount = Math.max(columnCount, width);
  }
  if (!lines) return null;
  const shown = Math.min(columnCount, MOST_COLUMNS);
  const [head, ...rows] = kept.map((cells) => Array.from({ length: shown }, (_, place) => cells[place] ?? ""));
  return { head, rows, rowCount: lines - 1, columnCount };
}

function separatorOf(text, candidates) {
  const [first] = /^.*$/m.exec(text.trimStart().slice(0, 10_000)) ?? [""];
  const outside = first.replace(/"[^"]*"/g, "");
  const times = candidates.map((candidate) => outside.split(candidate).length);
  return candidates[times.indexOf(Math.max(...times))];
}

/** The non-empty lines: the first `cells` of each, and its number of cells. A quoted cell may have several lines. */
function* linesOf(text, separator) {
  const ends = new RegExp(`[${separator}\r\n]`, "g");
  let at = 0;
  while (at < text.length) {
    const cells = [];
    let width = 0;
    let more = true;
    while (more) {
      const { cell, end } = readCell(text, at, ends);
      if (width < MOST_COLUMNS) cells.push(cell);
      width += 1;
      more = text[end] === separator;
      at = end + (text[end] === "\r" && text[end + 1] === "\n" ? 2 : 1);
    }
    if (width > 1 || cells[0] !== "") yield { cells, width };
  }
}

/** The cell that begins at `at`, and where it ends: at a separator, a line's end, or the end of the text. */
function readCell(text, at, ends) {
  const isQuoted = text[at] === '"';
  const closed = isQuoted ? closingQuote(text, at + 1) : at;
  ends.lastIndex = closed;
  const end = ends.exec(text)?.index ?? text.length;
  if (!isQuoted) return { cell: text.slice(at, Math.min(end, at + MOST_CHARACTERS + 1)), end };
  const within = text.slice(at + 1, Math.min(closed, at + 2 * MOST_CHARACTERS)).replaceAll('""', '"');
  return { cell: within + text.slice(closed + 1, Math.min(end, closed + MOST_CHARACTERS)), end };
}

function closingQuote(text, from) {
  let at = text.indexOf('"', from);
  while (at >= 0 && text[at + 1] === '"') at = text.indexOf('"', at + 2);
  return at < 0 ? text.length : at;
}

/** Draws the table, and says how much of it is left out. */
export function drawTable({ head, rows, rowCount, columnCount }) {
  const numbers = head.map((_, place) => rows.length > 0 && rows.every((row) => NUMBER.test(row[place])));
  const classOf = (place) => (numbers[place] ? "st-number" : null);
  const left = [
    rowCount > rows.length && count(rowCount - rows.length, "more row"),
    columnCount > head.length && count(columnCount - head.length, "more column"),
  ].filter(Boolean);
  return [
    h(
      "div",
      {
        key: "table",
        class: "st-data",
        role: "region",
        tabindex: 0,
        "aria-label": "Table",
        "data-testid": "output-table",
      },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            head.map((name, place) =>
              h(
                shownCell(name) ? "th" : "td",
                { key: place, scope: shownCell(name) ? "col" : null, class: classOf(place) },
                shownCell(name),
              ),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map((row, number) =>
            h(
              "tr",
              { key: number },
              row.map((cell, place) => h("td", { key: place, class: classOf(place) }, shownCell(cell))),
            ),
          ),
        ),
      ),
    ),
    rowCount === 0 && h("p", { key: "bare", class: "st-muted" }, "The table has no rows."),
    left.length > 0 &&
      h(
        "p",
        { key: "left", class: "st-muted", "data-testid": "output-left-out" },
        `${left.join(" and ")} not shown; download the file for all of it.`,
      ),
  ];
}

function shownCell(cell) {
  return shortened(clean(cell), MOST_CHARACTERS);
}
