/** The table of a report. */

import { tableHead } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { amount, clean, duration, money } from "../visuals/base/words.js";
import { atAGlance } from "./rounding.js";

const MOST_ROWS = 500;
const NOT_NAMED = { project: "no project", person: "not known", type: "not known" };

/** The rows of a report with its total; columns in which nothing is known are left out. */
export function drawRows(report) {
  const { columns } = report;
  const heads = [...report.by, ...columns.map(({ title }) => title)];
  const rows = report.rows.slice(0, MOST_ROWS);
  return [
    h(
      "div",
      { key: "frame", class: "table-responsive st-report-frame" },
      h(
        "table",
        { class: "table st-table st-report-table", "data-testid": "report-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            tableHead(heads).children[0].children.map((head) => hinted(head, report)),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map((row) => drawRow(report.by, columns, row)),
        ),
        report.rows.length > 1 && h("tfoot", {}, drawTotal(report, columns)),
      ),
    ),
    report.rows.length > MOST_ROWS &&
      h(
        "p",
        { key: "more", class: "st-muted", "data-testid": "report-more" },
        `The first ${amount(MOST_ROWS)} of ${amount(report.rows.length)} rows; the CSV and JSON files have all.`,
      ),
  ];
}

function hinted(head, { columns }) {
  const column = columns.find(({ title }) => title === head.props.key);
  return { ...head, props: { ...head.props, title: column?.hint || null, class: column ? "st-number" : null } };
}

function drawRow(by, columns, row) {
  const names = by.map((each) => row.by[each] || NOT_NAMED[each] || "");
  return h(
    "tr",
    { key: JSON.stringify(row.by), "data-testid": "report-row" },
    names.map((name, at) => h("th", { key: by[at], scope: "row" }, clean(name))),
    cells(columns, row),
  );
}

function drawTotal(report, columns) {
  const spanned = Math.max(1, report.by.length);
  return h(
    "tr",
    { key: "total", "data-testid": "report-total" },
    report.by.length > 0 && h("th", { key: "total", scope: "row", colspan: spanned }, "Total"),
    cells(columns, report.total),
  );
}

function cells(columns, row) {
  return columns.map(({ name, title }) =>
    h(
      "td",
      { key: name, "data-label": clean(title), class: "st-number", title: exactly(name, row[name]) },
      shown(name, row[name]),
    ),
  );
}

function exactly(name, value) {
  return value === null || Number.isInteger(value) || name.startsWith("wait") ? null : String(value);
}

function shown(name, value) {
  if (value === null) return "–";
  if (name.startsWith("wait")) return duration(value);
  if (name === "cost") return money(value);
  if (Number.isInteger(value)) return amount(value);
  if (Math.abs(value) < 1) return atAGlance(value);
  return value.toLocaleString("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
}
