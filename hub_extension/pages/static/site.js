/** The common parts of all pages: the viewer, calls of the pool's API, and its event stream. */

import { BrowserNotices } from "./notices.js";
import { h, patch } from "./visuals/base/dom.js";
import { clean } from "./visuals/base/words.js";
import { callsOf } from "./visuals/live/api.js";
import { followStream } from "./visuals/live/event_stream.js";
import { PoolFeed } from "./visuals/live/pool_feed.js";

const CONNECTIONS = { live: "Live", asking: "Updated every few seconds", away: "Reconnecting…" };

const { prefix, hub, xsrf, user, admin, administers, job } = document.querySelector('meta[name="springtide"]').dataset;

let shownCode = null;

const notices = new BrowserNotices(prefix);

const administered = new Set(JSON.parse(administers));

/** The addresses and the viewer of this page; `administers` returns whether the viewer administers a project. */
export const site = {
  prefix,
  hub,
  user,
  admin: admin === "yes",
  administersSome: admin === "yes" || administered.size > 0,
  administers: (project) => admin === "yes" || administered.has(project) || administered.has(""),
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

/** The address of the viewer's jobs that have a tag, ended ones too. */
export function tagPath(tag) {
  return `${prefix}jobs/?${new URLSearchParams({ tag, show: "all" })}`;
}

/**
 * Follows the event stream while the page is open. If a proxy holds streams back, polls every few seconds instead.
 * @param on `kind(data)` for each kind of event to follow, `again()` when events may have been missed
 * @param only id of the one job to follow, or null for all
 * @param show called with the state of the connection, and with the problem if there is one
 * @returns `{ stop }`
 */
export function followEvents(on, only = null, show = () => {}) {
  const query = only ? `?${new URLSearchParams({ job: only })}` : "";
  const open = (headers, signal) => request(`events${query}`, { headers, cache: "no-store", signal });
  const notification = (content) => {
    if (content.channels.includes("browser")) notices.hear(content);
    on.notification?.(content);
  };
  const connected = (state, problem) => {
    showConnection(state);
    show(state, problem);
  };
  const stream = followStream(open, { ...on, notification }, connected);
  window.addEventListener("pagehide", stream.stop, { once: true });
  return stream;
}

/** The `PoolFeed` of the page. Its stream has the events of the pool and of all jobs, or those of the `only` job. */
export function followPool(only = null) {
  const follow = (on, show) => followEvents(on, only, show);
  const viewer = { name: user, admin: site.admin, administers: site.administers };
  return new PoolFeed(
    { call, openFile, follow },
    { pageOf: jobPath, compareOf: comparePath, boardOf: boardPath },
    viewer,
  );
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

function showConnection(state) {
  const place = document.getElementById("connection");
  place.dataset.connection = state;
  patch(place, h("span", { key: "dot", class: "st-live-dot", "aria-hidden": "true" }), ` ${CONNECTIONS[state]}`);
}

/** A section of a page. */
export function section(key, title, ...content) {
  return h("section", { key, class: "st-section", "data-testid": `section-${key}` }, h("h2", {}, title), content);
}

/** Gives the page its title. */
export function showTitle(title) {
  document.title = `${title} · Springtide`;
  document.querySelector("h1").textContent = title;
}
