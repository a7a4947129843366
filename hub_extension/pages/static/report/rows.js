/** The table of a report. */

import { tableHead } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { amount, clean, duration } from "../visuals/base/words.js";
import { rounded } from "./rounding.js";

const MOST_ROWS = 500;
const NOT_NAMED = { project: "no project", person: "not known", type: "not known" };
const COLUMNS = {
  gpu_hours_held: "held h",
  gpu_hours_measured: "measured h",
  gpu_hours_used: "used h",
  gpu_hours_quota: "quota h",
  gpu_hours_borrowed: "borrowed h",
  gpu_hours_lent: "lent h",
  idle_held_hours: "idle h",
  jobs: "jobs",
  people: "people",
  wait_p50_s: "wait, 50 %",
  wait_p95_s: "wait, 95 %",
  pauses: "pauses",
  lost_gpu_hours: "lost h",
  cost: "cost",
};
const HINTS = {
  "held h": "GPU-hours held",
  "measured h": "GPU-hours held by GPUs that reported how busy they were",
  "used h": "GPU-hours in which the GPUs computed",
  "quota h": "GPU-hours of the quota",
  "borrowed h": "GPU-hours held beyond the quota",
  "lent h": "unused quota that others borrowed, in GPU-hours",
  "idle h": "GPU-hours of hours with less than 10 % use of a GPU",
  "wait, 50 %": "half of the jobs did not wait longer for their first start",
  "wait, 95 %": "95 % of the jobs did not wait longer for their first start",
  "lost h": "GPU-hours of paused and lost attempts after their last checkpoint",
};

/** The rows of a report with its total; columns in which nothing is known are left out. */
export function drawRows(report) {
  const columns = Object.keys(COLUMNS).filter((name) => report.rows.some((row) => isKnown(row, name)));
  const heads = [...report.by, ...columns.map((name) => headOf(name, report))];
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

function isKnown(row, name) {
  return name === "gpu_hours_measured" ? row[name] > 0 : row[name] !== null;
}

/** The head of a column; that of costs names their currency. */
function headOf(name, { currency }) {
  return name === "cost" && currency ? `${COLUMNS.cost}, ${clean(currency)}` : COLUMNS[name];
}

function hinted(head, report) {
  const { key } = head.props;
  const classes = Object.keys(COLUMNS).some((name) => headOf(name, report) === key) ? "st-number" : null;
  return { ...head, props: { ...head.props, title: HINTS[key] ?? null, class: classes } };
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
  return columns.map((name) =>
    h(
      "td",
      { key: name, "data-label": COLUMNS[name], class: "st-number", title: exactly(name, row[name]) },
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
  if (Number.isInteger(value)) return amount(value);
  const digits = name === "cost" ? 2 : 1;
  if (Math.abs(value) < 0.5 / 10 ** digits) return amount(rounded(value));
  return value.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
