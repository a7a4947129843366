/** The report: GPU-hours, waits and costs of a period, as charts and a table, to download and to print. */

import { drawBars, drawTide, projectsOf } from "./report/charts.js";
import { daysOf, isTide, PERIODS, tideColumn } from "./report/period.js";
import { drawRows } from "./report/rows.js";
import { attempted, call, openFile, section, site } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { button, emptyState, simulatedMark } from "./visuals/base/glyphs.js";
import { inOrder } from "./visuals/base/pace.js";
import { clean } from "./visuals/base/words.js";

const COLUMNS = {
  project: "Project",
  person: "Person",
  type: "GPU type",
  kind: "Kind of work",
  day: "Day",
  week: "Week",
  month: "Month",
  year: "Year",
};

const shown = { ...fromAddress(), table: null, tide: null, column: null, colours: {}, busy: false };
const read = inOrder(ask, take);

start();

async function start() {
  draw();
  const [pool] = await Promise.all([attempted(() => call("GET", "pool")), read()]);
  shown.colours = Object.fromEntries((pool?.projects ?? []).map(({ name, colour }) => [name, colour]));
  draw();
}

/** The shown report, by the query of the page's address. */
function fromAddress() {
  const query = new URLSearchParams(window.location.search);
  const [first, second] = (query.get("by") ?? "project").split(",");
  const named = query.has("start") || query.has("end") ? "own" : "month";
  const period = query.get("period") ?? named;
  const usual = daysOf("month", Date.now());
  return {
    period: Object.hasOwn(PERIODS, period) ? period : named,
    own: { start: query.get("start") ?? usual[0], end: query.get("end") ?? usual[1] },
    first: Object.hasOwn(COLUMNS, first) ? first : "project",
    second: Object.hasOwn(COLUMNS, second) && second !== first ? second : "",
  };
}

function span() {
  const [start, end] = daysOf(shown.period, Date.now()) ?? [shown.own.start, shown.own.end];
  return { start, end };
}

function columns() {
  return [shown.first, shown.second].filter(Boolean).join(",");
}

function choose(change) {
  Object.assign(shown, change);
  if (shown.second === shown.first) shown.second = "";
  const own = shown.period === "own" ? shown.own : {};
  const query = new URLSearchParams({ period: shown.period, ...own, by: columns() });
  window.history.replaceState(null, "", `${window.location.pathname}?${query}`);
  shown.busy = true;
  draw();
  read();
}

async function ask() {
  const days = span();
  const reportBy = (by) => attempted(() => call("GET", `report?${new URLSearchParams({ ...days, by })}`));
  const column = ownTide(days) ?? tideColumn(days);
  const asked = reportBy(columns());
  const [table, tide] = await Promise.all([asked, ownTide(days) ? asked : reportBy(`project,${column}`)]);
  return { column, table, tide };
}

/** The column of times of a table by project and time whose rows are the tide as well; null for other tables. */
function ownTide(days) {
  const by = [shown.first, shown.second];
  const time = by.find((column) => column !== "project");
  return by.includes("project") && time && isTide(time, days) ? time : null;
}

function take({ column, table, tide }) {
  Object.assign(shown, { busy: false, column, table: table ?? shown.table, tide: tide ?? shown.tide });
  draw();
}

function draw() {
  const page = document.getElementById("page");
  if (shown.busy || !shown.table) page.setAttribute("aria-busy", "true");
  else page.removeAttribute("aria-busy");
  patch(page, drawChoice(), shown.table && shown.tide ? drawReport(shown) : h("p", { class: "st-muted" }, "Loading…"));
}

function drawReport({ table, tide, column, colours }) {
  const days = table.start === table.end ? `On ${table.start}` : `From ${table.start} to ${table.end}`;
  const head = h(
    "p",
    { key: "span", class: "st-report-span", "data-testid": "report-span" },
    `${days}, in UTC. ${table.scope} `,
    [simulatedMark(table.simulated)],
  );
  if (!table.rows.length)
    return [
      head,
      emptyState(
        "No GPU-hours that you may see in this time.",
        "Choose another period. A project shows here with its first quota, and people with the first job that holds GPUs.",
      ),
    ];
  const projects = projectsOf(tide, colours);
  return [
    head,
    drawNumbers(table.numbers),
    drawNotable(tide.notable),
    projects.some(({ held }) => held > 0) && [
      section("tide", "GPUs over time", drawTide(tide, column, projects, Date.now())),
      section("projects", "GPU-hours by project", drawBars(projects)),
    ],
    section("table", "Table", drawRows(table)),
    h(
      "ul",
      { key: "notes", class: "st-plain st-muted", "data-testid": "report-notes" },
      table.notes.map((note) => h("li", { key: note }, note)),
    ),
  ];
}

/** Remarks about projects: the report by project and time has it whatever the rows are by. */
function drawNotable(lines) {
  if (!lines.length) return null;
  return h(
    "ul",
    { key: "notable", class: "st-report-notable", "data-testid": "report-notable" },
    lines.map((line) => h("li", { key: line }, clean(line))),
  );
}

function drawNumbers(numbers) {
  return h(
    "dl",
    { key: "numbers", class: "st-report-numbers", "data-testid": "report-numbers" },
    numbers.map(({ title, text }) => h("div", { key: title }, h("dt", {}, title), h("dd", {}, clean(text)))),
  );
}

function drawChoice() {
  const select = (name, label, options, value, change) =>
    h(
      "label",
      { key: name },
      `${label} `,
      h(
        "select",
        { class: "form-select", value, "data-testid": name, on: { change: (event) => change(event.target.value) } },
        Object.entries(options).map(([key, words]) => h("option", { key, value: key, selected: key === value }, words)),
      ),
    );
  const day = (which, label) =>
    h(
      "label",
      { key: which },
      `${label} `,
      h("input", {
        type: "date",
        class: "form-control",
        value: shown.own[which],
        "data-testid": `report-${which}`,
        on: { change: (event) => event.target.value && choose({ own: { ...shown.own, [which]: event.target.value } }) },
      }),
    );
  const others = Object.fromEntries(Object.entries(COLUMNS).filter(([name]) => name !== shown.first));
  return h(
    "div",
    { key: "choice", class: "st-filters st-report-choice" },
    select("report-period", "Period", PERIODS, shown.period, (period) => choose({ period })),
    shown.period === "own" && [day("start", "From"), day("end", "To")],
    select("report-by", "Rows by", COLUMNS, shown.first, (first) => choose({ first })),
    select("report-then", "then by", { "": "nothing else", ...others }, shown.second, (second) => choose({ second })),
    h(
      "span",
      { key: "files", class: "st-report-files" },
      button("report-csv", "CSV", () => download("report.csv", "csv")),
      button("report-json", "JSON", () => download("report", "json")),
      button("report-print", "Print", () => window.print()),
      site.administersSome &&
        h(
          "a",
          { key: "what-if", class: "st-button", href: `${site.prefix}what-if`, "data-testid": "what-if" },
          "What if…",
        ),
    ),
  );
}

/** Downloads the report that is shown. */
function download(path, ending) {
  const days = span();
  return attempted(async () => {
    const answer = await openFile(`${path}?${new URLSearchParams({ ...days, by: columns() })}`);
    const address = URL.createObjectURL(await answer.blob());
    const link = document.createElement("a");
    link.href = address;
    link.download = `report-${days.start}-${days.end}.${ending}`;
    link.click();
    URL.revokeObjectURL(address);
  });
}
