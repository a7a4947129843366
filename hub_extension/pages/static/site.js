/** The common parts of all pages: the viewer, calls of the pool's API, and its event stream. */

import { BrowserNotices } from "./notices.js";
import { h, patch } from "./visuals/base/dom.js";
import { clean } from "./visuals/base/words.js";
import { callsOf } from "./visuals/live/api.js";
import { contactOf, followEvents as followShared } from "./visuals/live/page_stream.js";
import { PoolFeed } from "./visuals/live/pool_feed.js";
import { OVERDUE } from "./visuals/live/stale.js";

const CONNECTIONS = {
  connecting: "Connecting…",
  waiting: "Waiting for an answer…",
  live: "Live",
  asking: "Updated every few seconds",
  away: "Reconnecting…",
};
const LIVE_IN_FRONT = "Live while this page is in front";
const AGAIN_MS = 5000;
const YOUNG_MS = 5000;

const { prefix, hub, xsrf, user, admin, administers, projects, notified, job } =
  document.querySelector('meta[name="springtide"]').dataset;

let shownCode = null;

const notices = new BrowserNotices(prefix, notified === "yes", () => stream?.look());

const administered = new Set(JSON.parse(administers));

/**
 * The addresses and the viewer of this page; `administers` returns whether the viewer administers a project, `projects`
 * are the names of those that the viewer is a member of.
 */
export const site = {
  prefix,
  hub,
  user,
  admin: admin === "yes",
  administersSome: admin === "yes" || administered.size > 0,
  administers: (project) => admin === "yes" || administered.has(project) || administered.has(""),
  projects: JSON.parse(projects),
  job,
};

async function request(path, init) {
  const headers = { Accept: "application/json", ...init.headers, "X-XSRFToken": xsrf };
  const answer = await fetch(`${prefix}api/v1/${path}`, { credentials: "same-origin", ...init, headers });
  if (answer.status === 401) window.location.reload();
  return answer;
}

const api = callsOf(
  request,
  { message: "The pool does not answer.", hint: "Try again in a moment." },
  ({ status }) => ({ code: "error", message: `The pool answered ${status}.` }),
);

let stream = null;

showContact("connecting");
api.reads.watch(() => stream ?? showContact(contactOf(null, api.reads)));

/** Calls the API and returns the body of the response. Throws `Refused`. */
export const call = api.call;

/** Opens a file of the API: returns the `Response` with the file as its body. Throws `Refused`. */
export const openFile = api.openFile;

/** The path of a job's own page. */
export function jobPath(id) {
  return `${prefix}jobs/${encodeURIComponent(id)}`;
}

/** The address of the TensorBoard of jobs, in the viewer's own notebook server. */
export function boardPath(ids) {
  return `${site.hub}user-redirect/springtide/tensorboard/${ids.join("-")}/`;
}

/** The address of the comparison of jobs. */
export function comparePath(ids) {
  return `${prefix}compare?${new URLSearchParams(ids.map((id) => ["job", id]))}`;
}

/** The ids of the jobs in the address of a comparison: `job=a&job=b`, or `jobs=a,b` as in the API. */
export function comparedIds(address) {
  const query = new URLSearchParams(address);
  const listed = query.getAll("jobs").flatMap((ids) => ids.split(","));
  return [...new Set([...query.getAll("job"), ...listed].map((id) => id.trim()).filter(Boolean))];
}

/** The address of the viewer's jobs that have a tag, ended ones too. */
export function tagPath(tag) {
  return `${prefix}jobs/?${new URLSearchParams({ tag, show: "all" })}`;
}

/**
 * Follows the events of the pool while the page is open. If a proxy holds streams back, polls every few seconds instead.
 * @param on `kind(data)` for each kind of event to follow, `again()` when events may have been missed
 * @param only id of the one job to follow, or null for all
 * @param show called as that of `followEvents` in `page_stream.js`
 * @returns `{ stop }`
 */
export function followEvents(on, only = null, show = () => {}) {
  const address = new URL(`${prefix}api/v1/events`, window.location.href).href;
  const source = () => ({ address, user, headers: { "X-XSRFToken": xsrf } });
  const notify = (content) => content.channels.includes("browser") && notices.hear(content);
  const notification = (content) => {
    notify(content);
    on.notification?.(content);
  };
  const connected = (contact, problem, isOpen, isAlone) => {
    if (isLoggedOut(problem)) window.location.reload();
    showContact(contact, isAlone);
    show(contact, problem, isOpen);
  };
  const hidden = { isWanted: () => notices.areWanted(), on: { notification: notify } };
  stream = followShared(source, api.reads, { ...on, notification }, connected, { only, hidden });
  window.addEventListener("pagehide", stream.stop, { once: true });
  return stream;
}

/** Says that the viewer has chosen events for this browser, or none, or that the browser now allows notifications. */
export function noticesChosen(isChosen) {
  notices.choose(isChosen);
}

/**
 * Whether the log-in of the page has ended: loading it again leads to the log-in, or to the page of who has logged in
 * since. One that has just been loaded does not, so that none is loaded again without a pause.
 */
function isLoggedOut(problem) {
  return problem?.status === 401 || (problem?.code === "xsrf" && performance.now() > YOUNG_MS);
}

/** The `PoolFeed` of the page. Its stream has the events of the pool and of all jobs, or those of the `only` job. */
export function followPool(only = null) {
  const viewer = { name: user, admin: site.admin, administers: site.administers, projects: site.projects };
  return new PoolFeed(
    { call, openFile, follow: (on, show) => followEvents(on, only, show) },
    { pageOf: jobPath, compareOf: comparePath, boardOf: boardPath },
    viewer,
  );
}

/** Returns what `read` promises; tries again, and says so, while the pool does not answer. Throws other refusals. */
export async function persistently(read) {
  for (;;) {
    try {
      const answer = await read();
      if (shownCode === "away") showMessage(null);
      return answer;
    } catch (error) {
      if (error.code !== "away") throw error;
      showMessage(error);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}

/** Shows an error at the top of the page; nothing clears it. */
export function showMessage(error) {
  const place = document.getElementById("message");
  shownCode = error?.code ?? null;
  const dismiss = () => showMessage(null);
  patch(
    place,
    error &&
      h(
        "div",
        { key: "message", class: "alert alert-danger st-message" },
        h("span", {}, clean(error.message)),
        h("button", { type: "button", class: "btn-close", "aria-label": "Dismiss", on: { click: dismiss } }),
      ),
  );
}

/** Runs `work` and shows its refusal at the top of the page. */
export async function attempted(work) {
  try {
    const answer = await work();
    if (shownCode === "away") showMessage(null);
    return answer;
  } catch (error) {
    showMessage(error);
    return null;
  }
}

/** Says nothing of the contact with the pool: the page asks nothing of it. */
export function askNothing() {
  showContact(null);
}

/** Shows the contact with the pool, null before events are followed, and what helps while an answer is overdue. */
function showContact(contact, isAlone = false) {
  const place = document.getElementById("connection");
  const words = isAlone && contact === "live" ? LIVE_IN_FRONT : CONNECTIONS[contact];
  place.dataset.connection = contact ?? "";
  patch(place, contact && [h("span", { key: "dot", class: "st-live-dot", "aria-hidden": "true" }), ` ${words}`]);
  document.getElementById("overdue").textContent = contact === "waiting" ? OVERDUE : "";
}

/** A section of a page. */
export function section(key, title, ...content) {
  const id = `section-${key}`;
  return h("section", { key, id, class: "st-section", "data-testid": id }, h("h2", {}, title), content);
}

/** Gives the page its title. */
export function showTitle(title) {
  document.title = `${title} · Springtide`;
  document.querySelector("h1").textContent = title;
}
