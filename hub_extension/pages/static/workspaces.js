/** The viewer's workspaces, for admins all, with their GPUs, start, last use, and a button to stop them. */

import { attempted, call, followEvents, showTitle, site } from "./site.js";
import { dataCells, dataTable } from "./table.js";
import { h, patch } from "./visuals/base/dom.js";
import { button, emptyState, simulatedMark, when } from "./visuals/base/glyphs.js";
import { calmly, inOrder, whileInSight } from "./visuals/base/pace.js";
import { agoLasts, clean, clockNow, count } from "./visuals/base/words.js";
import { drawStopped, useWords } from "./workspaces/idle.js";
import { IdleRules } from "./workspaces/rules.js";

const HEADS = [
  "workspace",
  "user",
  "state",
  "GPUs",
  "type",
  "running since",
  "last activity",
  "use of its GPUs",
  "actions",
];
const LOOK_AGAIN_MS = 10_000;
const STATES = { running: "Running", starting: "Starting", stopping: "Stopping", unknown: "Unknown to the hub" };

const shown = {
  items: null,
  stopped: [],
  me: null,
  everybody: new URLSearchParams(window.location.search).get("whose") === "all" && site.admin,
  stopping: null,
  busy: new Set(),
  sort: "user",
};
let view = null;
const redraw = () => view?.draw();
const read = inOrder(ask, take);
const reread = calmly(read, 1);
const rules = new IdleRules(redraw);

start();

async function start() {
  view = whileInSight(document.getElementById("page"), draw, lasts);
  await read();
  if (shown.everybody) rules.read();
  followEvents({ pool: reread, again: reread });
  setInterval(() => document.hidden || read(), LOOK_AGAIN_MS);
}

/** How long the drawn words stay true while nothing happens, in seconds; null without a workspace. */
function lasts() {
  const now = clockNow();
  const times = (shown.items ?? []).flatMap(({ since, last_activity: last }) => [since, last].filter(Boolean));
  return times.length ? Math.min(...times.map((at) => agoLasts(at, now))) : null;
}

async function ask() {
  const everybody = shown.everybody;
  const [me, list] = await Promise.all([
    attempted(() => call("GET", "me")),
    attempted(() => call("GET", `workspaces${everybody ? "?everybody=1" : ""}`)),
  ]);
  return list && { everybody, me, list };
}

function take({ everybody, me, list }) {
  shown.me = me ?? shown.me;
  if (everybody === shown.everybody) Object.assign(shown, { items: list.items, stopped: list.stopped });
  redraw();
}

function draw() {
  const { items, me, everybody } = shown;
  if (!items) return;
  showTitle(everybody ? "Everybody's workspaces" : "My workspaces");
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  patch(
    page,
    h("h2", { key: "list", class: "st-hidden" }, "List"),
    h(
      "div",
      { key: "tools", class: "st-filters" },
      h(
        "a",
        { key: "start", class: "st-button", href: `${site.hub}spawn`, "data-testid": "start-workspace" },
        "Start a workspace",
      ),
      h("a", { key: "named", href: `${site.hub}home` }, "Home, with named workspaces"),
      site.admin &&
        h(
          "label",
          { key: "whose" },
          h("input", {
            type: "checkbox",
            checked: everybody,
            "data-testid": "workspaces-everybody",
            on: { change: choose },
          }),
          " Everybody's workspaces",
        ),
      me && !everybody && h("span", { key: "quota", class: "st-muted", "data-testid": "build-quota" }, quotaWords(me)),
    ),
    drawStopped(shown.stopped, clockNow()),
    items.length
      ? drawTable(items)
      : emptyState(
          everybody ? "There are no workspaces now." : "You have no workspace now.",
          "A workspace is a notebook server with GPUs of your build quota, which are never reclaimed.",
        ),
    everybody && rules.draw(),
  );
}

function quotaWords({ build_quota: quota, build_held: held }) {
  return quota ? `${held} of your ${count(quota, "build GPU")} held` : "Your build quota is 0: workspaces have no GPU.";
}

function choose(event) {
  shown.everybody = event.target.checked;
  shown.items = null;
  window.history.replaceState(null, "", `${window.location.pathname}${shown.everybody ? "?whose=all" : ""}`);
  read();
  if (shown.everybody) rules.read();
}

function drawTable(items) {
  const now = clockNow();
  const heads = HEADS.filter((head) => head !== "user" || shown.everybody);
  return dataTable(
    "workspaces",
    heads,
    items.map((item) => drawRow(item, now)),
  );
}

function drawRow(item, now) {
  const {
    user,
    server,
    state,
    gpus,
    gpu_type: type,
    labels,
    simulated,
    since,
    last_activity: last,
    path,
    place,
  } = item;
  const name = clean(server) || "default";
  const cells = {
    ...(shown.everybody ? { user: clean(user) } : {}),
    state:
      state === "unknown"
        ? [
            STATES.unknown,
            h(
              "div",
              { key: "place", class: "st-muted", "data-testid": "workspace-unknown" },
              `It runs as ${clean(place)}, cannot be opened any more, and keeps its GPUs until it ends.`,
            ),
          ]
        : (STATES[state] ?? clean(state)),
    GPUs: gpus
      ? [h("span", { key: "gpus", title: labels.map(clean).join(", ") }, String(gpus), " "), simulatedMark(simulated)]
      : "none",
    type: clean(type) || "–",
    "running since": since ? when(since, now) : "–",
    "last activity": last ? when(last, now) : "–",
    "use of its GPUs": useWords(item.idle, now) ?? "–",
  };
  const opens = user === site.user && state === "running" && path;
  return h(
    "tr",
    { key: `${user}\n${server}`, "data-testid": "workspace-row" },
    h(
      "th",
      { key: "name", scope: "row" },
      opens ? h("a", { href: `${new URL(site.hub, window.location).origin}${path}` }, name) : name,
    ),
    dataCells(Object.keys(cells), Object.values(cells)),
    h("td", { key: "actions", class: "st-across" }, drawKeep(item, name), drawStop(item, name)),
  );
}

function drawStop(item, name) {
  const key = `${item.user}\n${item.server}`;
  const ask = (asking) => () => {
    shown.stopping = asking;
    redraw();
  };
  if (shown.stopping !== key)
    return button("workspace-stop", "Stop…", ask(key), {
      disabled: item.state === "stopping" || shown.busy.has(key),
      "aria-label": `Stop the workspace ${name} of ${clean(item.user)}`,
    });
  return [
    h(
      "span",
      { key: "question", role: "alert" },
      "Stop it? Unsaved changes and the variables of its kernels are lost; train jobs continue. ",
    ),
    h("button", { key: "keep", type: "button", class: "st-button", on: { click: ask(null) } }, "Keep it"),
    " ",
    button("workspace-confirm", "Stop it", () => act(item, key, "stop"), { class: "st-button st-danger" }),
  ];
}

function drawKeep(item, name) {
  if (!item.idle?.told) return null;
  const key = `${item.user}\n${item.server}`;
  const keep = () => act(item, key, "keep");
  return [
    button("workspace-keep", "Keep", keep, {
      class: "st-button st-primary st-keep",
      disabled: shown.busy.has(key),
      "aria-label": `Keep the workspace ${name} of ${clean(item.user)}`,
    }),
    " ",
  ];
}

async function act({ user, server }, key, what) {
  shown.stopping = null;
  shown.busy.add(key);
  redraw();
  await attempted(() =>
    call("POST", `workspaces/${encodeURIComponent(user)}/${what}?${new URLSearchParams({ server })}`),
  );
  await read();
  shown.busy.delete(key);
  redraw();
}
