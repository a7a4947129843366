/** The choices of notifications: a matrix of events and channels, and the channels below it. */

import { notifyHere } from "./notices.js";
import { attempted, call, followEvents, noticesChosen } from "./site.js";
import { h, patch } from "./visuals/base/dom.js";
import { button, submitButton, when } from "./visuals/base/glyphs.js";
import { calmly, inOrder, oncePerFrame } from "./visuals/base/pace.js";
import { clean, clockNow, count } from "./visuals/base/words.js";

const EVENTS = [
  ["failed", "A job failed", "or one of its attempts"],
  ["ended", "A job ended", "more than a minute after you sent it, or cancelled by another user"],
  ["succeeded-soon", "A job succeeded quickly", "within a minute after you sent it"],
  ["paused", "A job was paused", "by the pool or by another user"],
  ["resumed", "A job resumed", "after a pause that was not yours"],
  ["edited", "Another person edited a job", "an admin, or who leads its project"],
  ["time-limit", "A job is near its time limit", null],
  [
    "workspace",
    "Your workspace does not use its GPUs",
    "or was stopped because of that, or an admin asks about a job that does not",
  ],
  ["fault", "A GPU of the pool was drained", "because of a fault"],
  [
    "report",
    "The report of the month",
    "on the first day of the next, of the projects that you lead, or of the pool if you administer it",
  ],
  ["budget", "A budget is nearly or wholly spent", "of a project that you lead, or of any if you administer the pool"],
  ["request", "Your request is decided", "or you may grant a new one as the lead of a project"],
];
const OF_ADMINISTRATORS = [["needs", "Something in the pool needs you", "as the page Overview lists it, once each"]];
const LOOK_AGAIN_MS = 10_000;

const shown = { view: null, said: "", addresses: {}, busy: new Set(), results: {}, saving: 0, saved: "" };
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
  sayChosen();
  redraw();
}

/** Says to all pages whether they are to notify. */
function sayChosen() {
  const isChosen = shown.view.channels.some(({ name, events }) => name === "browser" && events.length > 0);
  const answer = `${isChosen} ${globalThis.Notification?.permission}`;
  if (answer !== shown.said) noticesChosen(isChosen);
  shown.said = answer;
}

function draw() {
  if (!shown.view) return;
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  patch(
    page,
    h("p", { key: "about" }, "Choose your notifications. Your own actions never notify you."),
    drawMatrix(shown.view.channels),
    h(
      "p",
      { key: "saved", class: "st-muted st-saved", role: "status", "data-testid": "notifications-saved" },
      shown.saving ? "Saving…" : shown.saved,
    ),
    shown.view.channels.map(drawChannel),
  );
}

/** The events as rows and the channels as columns; on narrow screens each event has its channels below it. */
function drawMatrix(channels) {
  return h(
    "table",
    { key: "matrix", class: "st-matrix", "data-testid": "notification-matrix" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { key: "event", scope: "col" }, "Event"),
        channels.map(({ name, title }) => h("th", { key: name, scope: "col" }, clean(title))),
      ),
    ),
    h(
      "tbody",
      {},
      [...EVENTS, ...(shown.view.administers ? OF_ADMINISTRATORS : [])].map(([event, words, more]) =>
        h(
          "tr",
          { key: event },
          h("th", { key: "event", scope: "row" }, words, more && h("span", { class: "st-muted" }, ` ${more}`)),
          channels.map((view) => drawChoice(view, event, words)),
        ),
      ),
    ),
  );
}

function drawChoice(view, event, words) {
  const title = clean(view.title);
  const disabled = Boolean(missing(view)) || needsAddress(view);
  return h(
    "td",
    { key: view.name },
    h(
      "label",
      { title: disabled ? "Set this channel up below first" : null },
      h("input", {
        type: "checkbox",
        checked: view.events.includes(event),
        disabled,
        "aria-label": `${words}: ${title}`,
        "data-testid": `${view.name}-${event}`,
        on: { change: (moved) => choose(view.name, event, moved.target.checked) },
      }),
      h("span", { class: "st-narrow-only", "aria-hidden": "true" }, title),
    ),
  );
}

/** Why a channel cannot be used, in words; empty if it can. */
function missing(view) {
  return view.name === "browser" ? missingHere() : clean(view.missing);
}

function needsAddress({ address_hint: hint, target }) {
  return hint !== null && !target;
}

function drawChannel(view) {
  const channel = view.name;
  const [title, about, why] = [clean(view.title), clean(view.about), missing(view)];
  const takesAddress = view.address_hint !== null;
  return h(
    "section",
    { key: channel, class: "st-section", "data-testid": `channel-${channel}` },
    h("h2", {}, title),
    h("p", { key: "about", class: "st-muted" }, about),
    why && h("p", { key: "missing", "data-testid": `missing-${channel}` }, why),
    channel === "browser" && drawPermission(),
    !takesAddress && view.target && h("p", { key: "target" }, "To ", h("strong", {}, clean(view.target)), "."),
    takesAddress && !why && drawAddress(view),
    (view.sends || channel === "browser") && !why && !needsAddress(view) && drawTest(channel, title),
    view.sends && drawState(channel, view),
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
  shown.saving += 1;
  redraw();
  const taken = changed.then(async () => {
    const view = await attempted(() => call("PATCH", "notifications", edit));
    shown.saving -= 1;
    shown.saved = view ? "Saved." : "Not saved: the error is at the top of the page.";
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
    ? "This browser blocks notifications of this page. Allow them in its settings for the page."
    : "";
}

function drawPermission() {
  if (!("Notification" in window) || Notification.permission !== "default") return null;
  const ask = async () => {
    await askPermission();
    redraw();
  };
  return h(
    "p",
    { key: "permission" },
    button("allow-browser", "Allow notifications in this browser", ask, { class: "st-button st-primary" }),
  );
}

async function askPermission() {
  await Notification.requestPermission();
  sayChosen();
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
        class: "form-control st-addresses",
        type: "password",
        autocomplete: "off",
        value: typed,
        "aria-describedby": `${name}-hint`,
        "data-testid": `${name}-url`,
        on: { input: type },
      }),
      submitButton(`${name}-save`, "Save", { class: "st-button", disabled: !typed }),
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
  if (Notification.permission === "default") await askPermission();
  return notifyHere({ tag: "test", title: "This is a test message of the pool.", text: "" });
}

function drawState(channel, { waiting, state, at, problem }) {
  if (!(state || waiting)) return null;
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
