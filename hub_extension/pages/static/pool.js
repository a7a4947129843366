/** The pool, live: projects as a tree, holders of GPUs, the queue, reasons for idle GPUs, and the tide. */

import { BookingList } from "./pool/bookings.js";
import { DefaultProject } from "./pool/default_project.js";
import { NodeDrains } from "./pool/drains.js";
import { drawHolders } from "./pool/holders.js";
import { drawLaunchStops } from "./pool/launch_stops.js";
import { drawNodeGroups } from "./pool/node_groups.js";
import { drawNodes } from "./pool/nodes.js";
import { drawQueue } from "./pool/queue.js";
import { drawTopology } from "./pool/topology.js";
import { UnmatchedHolders } from "./pool/unmatched.js";
import { OwnRequests } from "./requests/own_requests.js";
import { attempted, call, followEvents, jobPath, section, site } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { meanUse, percentWords, readingsOf } from "./visuals/base/gpu_use.js";
import { calmly, inOrder, oncePerFrame } from "./visuals/base/pace.js";
import { clean, clockNow, count } from "./visuals/base/words.js";
import { renderPoolBar } from "./visuals/charts/pool_bar.js";
import { renderTideChart } from "./visuals/charts/tide_chart.js";
import { renderPoolGlance } from "./visuals/views/pool_glance.js";
import { storeNotice } from "./visuals/views/store_notice.js";

const SPANS = { "1 hour": 3600, "6 hours": 6 * 3600, "1 day": 86400, "7 days": 7 * 86400 };
const HISTORY_EVERY_S = 5;
const HISTORY_ANYWAY_MS = 30_000;

const BOOKINGS_EVERY_S = 5;
const REQUESTS_EVERY_S = 5;
const QUEUE_EVERY_S = 2;
const QUEUE_MOST = 200;

const shown = { pool: null, usage: null, history: null, mine: [], queue: null, idle: null, span: "1 hour" };
const redraw = oncePerFrame(draw);
const drains = site.admin ? new NodeDrains(redraw) : null;
const bookings = new BookingList(site.admin, redraw);
const requests = site.admin ? null : new OwnRequests(redraw);
const unmatched = new UnmatchedHolders(site.admin, redraw);
const defaultProject = new DefaultProject(redraw);
const readQueue = inOrder(askQueue, takeQueue);
const rereadQueue = calmly(readQueue, QUEUE_EVERY_S);
const readHistory = inOrder(askHistory, takeHistory);
const rereadBookings = calmly(() => bookings.read(), BOOKINGS_EVERY_S);
const rereadRequests = calmly(() => requests?.read(), REQUESTS_EVERY_S);
const rereadHistory = calmly(readHistory, HISTORY_EVERY_S);
let poolsHeard = 0;

start();

async function start() {
  const me = await attempted(() => call("GET", "me"));
  defaultProject.take(me);
  shown.mine = (me?.projects ?? []).map((project) => project.name);
  await readAll();
  const notification = ({ event }) => event === "request" && rereadRequests();
  followEvents({ pool: hear, gpus: hearUsage, admin: readAll, again: readAll, notification });
  setInterval(rereadHistory, HISTORY_ANYWAY_MS);
}

/** Reads the pool and the use of its GPUs; a pool from an event in the meantime is newer. */
async function readAll() {
  const then = poolsHeard;
  const [pool, usage] = await Promise.all([
    attempted(() => call("GET", "pool")),
    attempted(() => call("GET", "pool/gpus")),
  ]);
  if (pool && then === poolsHeard) shown.pool = pool;
  shown.usage = usage ?? shown.usage;
  redraw();
  bookings.read();
  requests?.read();
  rereadHistory();
  rereadQueue();
}

/**
 * Reads the queue and why GPUs are idle; the answer has only jobs that the viewer may see. A sweep with running trials
 * has a place in the queue as long as another trial waits.
 */
async function askQueue() {
  const listOf = (state) =>
    attempted(() =>
      call("GET", `jobs?${new URLSearchParams({ state, order: "-newest", limit: QUEUE_MOST, starts: 0 })}`),
    );
  const [waiting, running, idle] = await Promise.all([
    listOf("queued,paused"),
    listOf("running"),
    attempted(() => call("GET", "pool/idle")),
  ]);
  return { waiting, running, idle };
}

function takeQueue({ waiting, running, idle }) {
  const sweeps = (running?.items ?? []).filter((job) => job.trials && job.place !== null);
  if (waiting) shown.queue = [...waiting.items, ...sweeps];
  shown.idle = idle ?? shown.idle;
  redraw();
}

async function askHistory() {
  const end = clockNow();
  const span = shown.span;
  const query = new URLSearchParams({ start: end - SPANS[span], end });
  const history = await attempted(() => call("GET", `history?${query}`));
  return history && { span, history };
}

function takeHistory({ span, history }) {
  if (span === shown.span) shown.history = history;
  redraw();
}

function hear(pool) {
  poolsHeard += 1;
  shown.pool = pool;
  redraw();
  rereadBookings();
  rereadRequests();
  rereadHistory();
  rereadQueue();
}

function hearUsage(usage) {
  shown.usage = usage;
  redraw();
}

function draw() {
  const { pool, history } = shown;
  if (!pool) return;
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  const colours = Object.fromEntries(pool.projects.map((project) => [project.name, project.colour]));
  const open = (id) => window.location.assign(jobPath(id));
  patch(
    page,
    storeNotice(pool, site.admin),
    pool.launch_stops?.length > 0 && section("stops", "Launching has stopped", drawLaunchStops(pool.launch_stops)),
    pool.unmatched?.length > 0 &&
      section("unmatched", "GPUs kept out of the pool", unmatched.draw(pool.unmatched, clockNow())),
    section(
      "glance",
      "Projects",
      defaultProject.draw(),
      h("div", { key: "glance", draw: (node) => renderPoolGlance(node, { pool, mine: shown.mine, tree: true }) }),
    ),
    requests && section("requests", "My requests", requests.draw(pool, shown.mine, shown.queue ?? [], clockNow())),
    shown.idle && section("idle", "Idle GPUs", drawIdle(shown.idle)),
    shown.queue && section("queue", "The queue", drawQueue(pool, shown.queue, clockNow())),
    bookings.isShown && section("bookings", "Bookings", bookings.draw(pool, clockNow())),
    section(
      "gpus",
      "GPUs",
      drawUsed(pool, shown.usage),
      h("div", { key: "bar", draw: (node) => renderPoolBar(node, { pool, usage: shown.usage }, { open }) }),
    ),
    section(
      "tide",
      "Tide",
      drawSpans(),
      history && h("div", { key: "chart", draw: (node) => renderTideChart(node, { history, colours }) }),
    ),
    section("holders", "Who holds what", drawHolders(pool, readingsOf(shown.usage), colours)),
    section(
      "nodes",
      "Nodes",
      drains?.done.draw(),
      drawNodes(pool.nodes, readingsOf(shown.usage), drains, clockNow()),
      drawNodeGroups(pool.node_groups, clockNow()),
      drawTopology(pool.nodes),
    ),
  );
}

function drawIdle({ gpus, why }) {
  const title = gpus ? `${count(gpus, "train GPU")} ${gpus === 1 ? "is" : "are"} idle.` : "No train GPU is idle.";
  return h(
    "div",
    { key: "idle", "data-testid": "idle" },
    h("p", { class: "mb-1" }, title),
    why.length > 0 &&
      h(
        "ul",
        { class: "st-plain" },
        why.map((words) => h("li", { key: words }, clean(words))),
      ),
  );
}

/** The utilization of the held train GPUs; nothing if GPUs are not measured. */
function drawUsed(pool, usage) {
  if (!usage?.measured) return null;
  const readings = readingsOf(usage);
  const held = pool.nodes
    .filter(({ environment }) => environment === "train")
    .flatMap(({ gpus }) => gpus.filter(({ holder }) => holder?.kind === "job"));
  if (!held.length) return null;
  const measured = held.map(({ uuid }) => readings.get(uuid));
  const used = meanUse(measured);
  const simulated = measured.some((reading) => reading?.simulated) ? " (simulated)" : "";
  const words =
    used === null ? "their use has not been measured yet" : `${percentWords(used)} of that used${simulated}`;
  return h(
    "p",
    { key: "used", class: "mb-1", "data-testid": "pool-used" },
    `${count(held.length, "train GPU")} held, ${words}.`,
  );
}

function drawSpans() {
  const choose = (event) => {
    shown.span = event.target.value;
    readHistory();
  };
  return h(
    "label",
    { key: "span", class: "st-span" },
    "Last ",
    h(
      "select",
      { class: "form-select form-select-sm", "data-testid": "tide-span", on: { change: choose } },
      Object.keys(SPANS).map((span) => h("option", { key: span, value: span }, span)),
    ),
  );
}
