/** An executed notebook, drawn from its cells. Its HTML, scripts and vector images never enter the page. */

import { h } from "../base/dom.js";
import { cleanLines } from "../base/words.js";

const PICTURES = ["image/png", "image/jpeg"];
const BASE64 = /^[A-Za-z0-9+/=\s]*$/;
const MOST_CELLS = 2_000;
const MOST_OUTPUT = 100_000;

/** The cells of a notebook file; null if the text is not a notebook. */
export function readNotebook(text) {
  try {
    const { cells } = JSON.parse(text);
    return Array.isArray(cells) ? cells.slice(0, MOST_CELLS).filter((cell) => cell && typeof cell === "object") : null;
  } catch {
    return null;
  }
}

/** Draws the cells: code and its outputs as text, markdown as its source, raster images as images. */
export function drawNotebook(cells) {
  return h(
    "div",
    { key: "notebook", class: "st-notebook", "data-testid": "notebook" },
    cells.map((cell, place) => (cell.cell_type === "code" ? drawCode(cell, place) : drawMarkdown(cell, place))),
  );
}

function drawMarkdown(cell, place) {
  const lines = textOf(cell.source).split("\n");
  return h(
    "div",
    { key: place, class: "st-cell-text", "data-testid": "notebook-text" },
    lines.map((line, number) => {
      const title = /^#{1,6} (.*)$/.exec(line);
      return title
        ? h("strong", { key: number, class: "st-cell-title" }, title[1])
        : h("span", { key: number }, `${line}\n`);
    }),
  );
}

function drawCode(cell, place) {
  const number = Number.isInteger(cell.execution_count) ? cell.execution_count : " ";
  const outputs = Array.isArray(cell.outputs) ? cell.outputs : [];
  return h(
    "div",
    { key: place, class: "st-cell-code", "data-testid": "notebook-code" },
    h("span", { key: "number", class: "st-muted st-cell-number" }, `[${number}]`),
    h("pre", { key: "source", class: "st-log st-code", tabindex: 0 }, textOf(cell.source)),
    outputs.map((output, order) => drawOutput(output ?? {}, order)),
  );
}

function drawOutput(output, order) {
  const data = output.data ?? {};
  const picture = PICTURES.find((type) => BASE64.test(textOf(data[type])) && textOf(data[type]).trim());
  if (picture)
    return h("img", {
      key: order,
      class: "st-cell-picture",
      src: `data:${picture};base64,${textOf(data[picture]).replace(/\s/g, "")}`,
      alt: textOf(data["text/plain"]) || "picture",
    });
  const error = output.output_type === "error";
  const text = error
    ? textOf(output.traceback, "\n") || `${output.ename}: ${output.evalue}`
    : textOf(output.text) || textOf(data["text/plain"]);
  if (!text) return null;
  return h(
    "pre",
    { key: order, class: error ? "st-error st-cell-output" : "st-cell-output", tabindex: 0 },
    text.slice(0, MOST_OUTPUT),
  );
}

function textOf(value, between = "") {
  return cleanLines(Array.isArray(value) ? value.map(String).join(between) : typeof value === "string" ? value : "");
}
