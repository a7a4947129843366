/** Jobs side by side: what differs among them, their metrics in the same plots, and how their code differs. */

import { drawCode, drawDifferences } from "./jobs/differences.js";
import { call, comparePath, followEvents, oncePerFrame, showMessage, site } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { emptyState } from "./visuals/base/glyphs.js";
import { clean, count } from "./visuals/base/words.js";
import { curveNames } from "./visuals/charts/loss_curve.js";
import { renderOverlayChart } from "./visuals/charts/overlay_chart.js";
import { CurveKeeper } from "./visuals/live/curves.js";

const MOST_JOBS = 20;
const MOST_CURVES = 12;

const ids = [...new Set(new URLSearchParams(window.location.search).getAll("job"))];
const shown = { jobs: [], differences: [], code: [], across: "step" };
const redraw = oncePerFrame(draw);
const curves = new CurveKeeper(call, redraw);
const page = document.getElementById("page");
const heard = new Map();
let events = 0;

start();

async function start() {
  if (ids.length < 2 || ids.length > MOST_JOBS) {
    drawNone();
    return;
  }
  if (!(await read())) return;
  followEvents({ job: hear, progress: hearProgress, again: read, opened: read });
}

/** Reads the comparison and answers whether there is one. A job that an event tells meanwhile is newer. */
async function read() {
  const then = events;
  try {
    Object.assign(shown, await call("GET", `comparison?${new URLSearchParams({ jobs: ids.join(",") })}`));
    shown.jobs = shown.jobs.map((job) =>
      heard.get(job.id)?.at > then ? { ...heard.get(job.id).job, source: job.source } : job,
    );
  } catch (error) {
    page.removeAttribute("aria-busy");
    showMessage(error);
    if (!shown.jobs.length) patch(page, drawBack());
    return shown.jobs.length > 0;
  }
  redraw();
  return true;
}

/** Events do not have what the job runs. */
function hear(job) {
  heard.set(job.id, { job, at: (events += 1) });
  replace(job.id, ({ source }) => ({ ...job, source }));
}

function hearProgress({ job: id, progress }) {
  replace(id, (job) => ({ ...job, progress }));
}

function replace(id, changed) {
  if (!shown.jobs.some((job) => job.id === id)) return;
  shown.jobs = shown.jobs.map((job) => (job.id === id ? changed(job) : job));
  redraw();
}

function drawNone() {
  page.removeAttribute("aria-busy");
  const title =
    ids.length > MOST_JOBS
      ? `At most ${MOST_JOBS} jobs are compared at a time; these are ${ids.length}.`
      : "Two jobs or more are compared.";
  patch(
    page,
    drawBack(),
    emptyState(
      title,
      "Select them in ",
      h("a", { href: `${site.prefix}?show=all` }, "My jobs"),
      ", or filter the trials of a sweep on its page.",
    ),
  );
}

function drawBack() {
  return h("p", { key: "back" }, h("a", { href: site.prefix }, "← My jobs"));
}

function draw() {
  page.removeAttribute("aria-busy");
  const title = `Comparison of ${count(shown.jobs.length, "job")}`;
  document.title = `${title} · Springtide`;
  document.querySelector("h1").textContent = title;
  const without = (id) => comparePath(ids.filter((other) => other !== id));
  patch(
    page,
    drawBack(),
    section("differences", "What differs", drawDifferences(shown, shown.jobs.length > 2 ? without : null)),
    section("curves", "Metrics", drawMetrics()),
    section("code", "Code", drawCode(shown)),
  );
}

function drawMetrics() {
  const runs = shown.jobs.map((job, place) => ({ place, name: clean(job.name) || job.id, points: curves.of(job) }));
  const names = curveNames(runs.flatMap((run) => run.points));
  if (!names.length)
    return emptyState(
      "None of these jobs has reported a metric yet.",
      "A training reports them with job.report(step=…, loss=…); the curves appear here as they come.",
    );
  const counts = new Map(
    names.map((name) => [name, runs.filter((run) => run.points.some((point) => name in point.values)).length]),
  );
  const common = names.toSorted((one, other) => counts.get(other) - counts.get(one));
  return [
    counts.get(common[0]) < 2 &&
      h(
        "p",
        { key: "none", class: "st-muted", "data-testid": "none-in-common" },
        "No metric was reported by two of these jobs.",
      ),
    drawAcross(),
    h(
      "div",
      { key: "curves", class: "st-curves" },
      common
        .slice(0, MOST_CURVES)
        .map((name) =>
          h("div", { key: name, draw: (node) => renderOverlayChart(node, { runs, name, across: shown.across }) }),
        ),
    ),
    names.length > MOST_CURVES &&
      h(
        "p",
        { key: "more", class: "st-muted" },
        `${count(names.length - MOST_CURVES, "more metric")} on the pages of the jobs.`,
      ),
  ];
}

function drawAcross() {
  const choose = (event) => {
    shown.across = event.target.value;
    redraw();
  };
  return h(
    "label",
    { key: "across", class: "st-span" },
    "Over ",
    h(
      "select",
      { class: "form-select form-select-sm", "data-testid": "metrics-across", on: { change: choose } },
      h("option", { key: "step", value: "step" }, "steps"),
      h("option", { key: "time", value: "time" }, "time"),
    ),
  );
}

function section(key, title, content) {
  return h("section", { key, class: "st-section", "data-testid": `section-${key}` }, h("h2", {}, title), content);
}
