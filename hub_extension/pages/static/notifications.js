/** The choices of notifications, by channel. */

import { attempted, call, followEvents, notifyHere } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { button, when } from "./visuals/base/glyphs.js";
import { calmly, inOrder, oncePerFrame } from "./visuals/base/pace.js";
import { clean, clockNow, count } from "./visuals/base/words.js";

const EVENTS = [
  ["paused", "A job was paused, by the pool or by another user"],
  ["resumed", "A job resumed after a pause"],
  ["ended", "A job succeeded, or another user cancelled it"],
  ["failed", "A job or an attempt of it failed"],
  ["time-limit", "A job is near its time limit"],
  ["fault", "A GPU of the pool has a fault and was drained"],
  ["workspace", "A workspace does not use its GPUs, or was stopped because of that"],
];
const LOOK_AGAIN_MS = 10_000;

const shown = { view: null, addresses: {}, busy: new Set(), results: {}, problem: null };
const redraw = oncePerFrame(draw);
const read = inOrder(ask, take);
const reread = calmly(read, 1);
let changes = 0;
let changed = Promise.resolve();

start();

async function start() {
  await read();
  followEvents({ notification: reread, again: reread });
  setInterval(() => document.hidden || read(), LOOK_AGAIN_MS);
}

async function ask() {
  const then = changes;
  const view = await attempted(() => call("GET", "notifications"));
  return view && { then, view };
}

/** Takes a view; choices made after its request are newer. */
function take({ then, view }) {
  if (then === changes) shown.view = view;
  redraw();
}

function draw() {
  if (!shown.view) return;
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  patch(
    page,
    h(
      "p",
      { key: "about" },
      "Choose the notifications about your jobs and the pool's GPUs, and their channels. Your own actions send none.",
    ),
    shown.view.channels.map(drawChannel),
  );
}

function drawChannel(view) {
  const channel = view.name;
  const [title, about] = [clean(view.title), clean(view.about)];
  const missing = channel === "browser" ? missingHere() : clean(view.missing);
  const takesAddress = view.address_hint !== null;
  const needs = takesAddress && !view.target;
  return h(
    "section",
    { key: channel, class: "st-section", "data-testid": `channel-${channel}` },
    h("h2", {}, title),
    h("p", { key: "about", class: "st-muted" }, about),
    missing && h("p", { key: "missing", "data-testid": `missing-${channel}` }, missing),
    channel === "browser" && drawPermission(),
    !takesAddress && view.target && h("p", { key: "target" }, "To ", h("strong", {}, clean(view.target)), "."),
    takesAddress && !missing && drawAddress(view),
    drawEvents(channel, title, view.events, Boolean(missing) || needs),
    !missing && !needs && drawTest(channel, title),
    drawState(channel, view),
  );
}

function drawEvents(channel, title, events, disabled) {
  return h(
    "fieldset",
    { key: "events", class: "st-choices", disabled },
    h("legend", { class: "st-hidden" }, title),
    EVENTS.map(([event, words]) =>
      h(
        "label",
        { key: event },
        h("input", {
          type: "checkbox",
          checked: events.includes(event),
          disabled,
          "data-testid": `${channel}-${event}`,
          on: { change: (moved) => choose(channel, event, moved.target.checked) },
        }),
        words,
      ),
    ),
  );
}

async function choose(channel, event, wanted) {
  const before = shown.view.channels.find(({ name }) => name === channel).events;
  const events = wanted ? [...new Set([...before, event])] : before.filter((each) => each !== event);
  shown.view = { channels: shown.view.channels.map((view) => (view.name === channel ? { ...view, events } : view)) };
  await change({ events: { [channel]: events } });
}

/**
 * Changes the choice, after earlier changes. Returns whether it was accepted; a refusal is shown, and the choice is drawn
 * as before.
 */
function change(edit) {
  const then = (changes += 1);
  const taken = changed.then(async () => {
    const view = await attempted(() => call("PATCH", "notifications", edit));
    if (view) take({ then, view });
    else await read();
    return Boolean(view);
  });
  changed = taken;
  return taken;
}

function missingHere() {
  if (!("Notification" in window))
    return "This browser shows no notifications, or none of pages that are not opened by https.";
  return Notification.permission === "denied"
    ? "This browser blocks notifications of this page. Allow them in the settings that it has for the page."
    : "";
}

function drawPermission() {
  if (!("Notification" in window) || Notification.permission !== "default") return null;
  const ask = async () => {
    await Notification.requestPermission();
    redraw();
  };
  return h(
    "p",
    { key: "permission" },
    button("allow-browser", "Allow notifications in this browser", ask, { class: "st-button st-primary" }),
  );
}

function drawAddress({ name, target, address_hint: hint }) {
  const typed = shown.addresses[name] ?? "";
  const save = async (event) => {
    event.preventDefault();
    if (await change({ addresses: { [name]: typed } })) shown.addresses[name] = "";
    redraw();
  };
  const type = (event) => {
    shown.addresses[name] = event.target.value;
    redraw();
  };
  return [
    target &&
      h(
        "p",
        { key: "target" },
        "To ",
        h("strong", {}, clean(target)),
        "; the address itself is a secret and is not shown again. ",
        button(`${name}-remove`, "Remove it", () => change({ addresses: { [name]: "" } })),
      ),
    h(
      "form",
      { key: "address", class: "st-filters", on: { submit: save } },
      h("label", { for: `${name}-url` }, target ? "Another address" : "Address"),
      h("input", {
        id: `${name}-url`,
        class: "form-control st-wide",
        type: "password",
        autocomplete: "off",
        value: typed,
        "aria-describedby": `${name}-hint`,
        "data-testid": `${name}-url`,
        on: { input: type },
      }),
      h("button", { type: "submit", class: "st-button", disabled: !typed, "data-testid": `${name}-save` }, "Save"),
      h("span", { id: `${name}-hint`, class: "st-muted" }, clean(hint)),
    ),
  ];
}

function drawTest(channel, title) {
  const result = shown.results[channel];
  return h(
    "p",
    { key: "test" },
    button(`test-${channel}`, "Send a test message", () => sendTest(channel), {
      disabled: shown.busy.has(channel),
      "aria-label": `Send a test message: ${title}`,
    }),
    h("span", { key: "result", role: "status", "data-testid": `result-${channel}` }, result ? ` ${result}` : ""),
  );
}

async function sendTest(channel) {
  shown.busy.add(channel);
  shown.results[channel] = "";
  redraw();
  if (channel === "browser") shown.results.browser = (await shownHere()) ? "Shown." : "This browser did not show it.";
  else {
    const sent = await attempted(() => call("POST", `notifications/${channel}/test`));
    if (sent) shown.results[channel] = sent.delivered ? "Delivered." : clean(sent.problem);
  }
  shown.busy.delete(channel);
  redraw();
}

async function shownHere() {
  if (Notification.permission === "default") await Notification.requestPermission();
  return notifyHere({ id: "test", job: "", title: "This is a test message of the pool.", text: "" });
}

function drawState(channel, { waiting, state, at, problem }) {
  if (channel === "browser" || !(state || waiting)) return null;
  return h(
    "p",
    { key: "state", class: problem ? "st-problem" : "st-muted", role: "status", "data-testid": `state-${channel}` },
    problem
      ? clean(problem)
      : state === "sent"
        ? ["The last message was delivered ", when(at, clockNow(), "at"), "."]
        : "",
    waiting ? ` ${count(waiting, "notification")} on the way.` : "",
  );
}
