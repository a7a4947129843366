/** What all pages share: who looks, calls of the pool's API, and its event stream. */

import { h, patch } from "./visuals/base/dom.js";
import { clean } from "./visuals/base/words.js";
import { followStream } from "./visuals/live/event_stream.js";

const CONNECTIONS = { live: "Live", asking: "Updated every few seconds", away: "Reconnecting…" };
const EVENT_PAGES = { fault: "pool", workspace: "workspaces" };

const { prefix, hub, xsrf, user, admin, administers, job } = document.querySelector('meta[name="springtide"]').dataset;

let shownCode = null;

const administered = new Set(JSON.parse(administers));

/** Where this page is and who looks at it; `administers` tells of a project whether its jobs and members are theirs. */
export const site = {
  prefix,
  hub,
  user,
  admin: admin === "yes",
  administers: (project) => admin === "yes" || administered.has(project) || administered.has(""),
  job,
};

/** A refusal of the API, in words for the one who asked. */
export class Refused extends Error {
  constructor(problem) {
    super([problem.message, problem.hint].filter(Boolean).join(" "));
    this.status = problem.status;
    this.code = problem.code;
    this.field = problem.field;
  }
}

/** Calls the API and answers its body. Throws `Refused`. */
export async function call(method, path, body) {
  const headers = { "X-XSRFToken": xsrf, Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`${prefix}api/v1/${path}`, {
      method,
      headers,
      credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused({
      status: 0,
      code: "away",
      message: "The pool does not answer.",
      hint: "Try again in a moment.",
    });
  }
  if (answer.status === 401) window.location.reload();
  if (answer.status === 204) return null;
  const content = await answer.json().catch(() => null);
  if (answer.ok && content !== null) return content;
  throw new Refused(
    content?.message
      ? content
      : { status: answer.status, code: "error", message: `The pool answered ${answer.status}.` },
  );
}

/** Opens a file of the API: answers the `Response` whose body it is. Throws `Refused`. */
export async function openFile(path) {
  const answer = await fetch(`${prefix}api/v1/${path}`, {
    headers: { "X-XSRFToken": xsrf },
    credentials: "same-origin",
  }).catch(() => null);
  if (answer?.ok) return answer;
  const problem = await answer?.json().catch(() => null);
  throw new Refused(
    problem ?? {
      status: answer?.status ?? 0,
      code: "away",
      message: "The file could not be fetched.",
      hint: "Try again in a moment.",
    },
  );
}

/** The path of a job's own page. */
export function jobPath(id) {
  return `${prefix}jobs/${encodeURIComponent(id)}`;
}

/** The address of the page that compares jobs. */
export function comparePath(ids) {
  return `${prefix}compare?${new URLSearchParams(ids.map((id) => ["job", id]))}`;
}

/** The address of the viewer's jobs that have a tag, ended ones too. */
export function tagPath(tag) {
  return `${prefix}?${new URLSearchParams({ tag, show: "all" })}`;
}

/**
 * Follows the event stream for ever. Where something on the way holds streams back, asks every few seconds instead.
 * @param on `kind(data)` for each kind of event wanted, `again()` when events may have been missed, and `opened()` when
 *   the stream has opened for the first time: what happened between the first reading and that was not told, unless the
 *   stream begins with it, as it does with the pool, or with the `only` job
 * @param only id of the one job to follow, or null for all
 */
export function followEvents(on, only = null) {
  const query = only ? `?${new URLSearchParams({ job: only })}` : "";
  const open = async (headers, signal) => {
    const url = `${prefix}api/v1/events${query}`;
    const answer = await fetch(url, {
      headers: { ...headers, "X-XSRFToken": xsrf },
      credentials: "same-origin",
      cache: "no-store",
      signal,
    });
    if (answer.status === 401) window.location.reload();
    return answer;
  };
  const told = (notification) => {
    notifyHere(notification);
    on.notification?.(notification);
  };
  let opened = false;
  const show = (state) => {
    showConnection(state);
    if (opened || state !== "live") return;
    opened = true;
    on.opened?.();
  };
  const { stop } = followStream(open, { ...on, notification: told }, show);
  window.addEventListener("pagehide", stop, { once: true });
}

/** Shows a notification of the browser if the person allowed that. Answers whether it did; tabs show one together. */
export function notifyHere({ id, job: about, event, title, text }) {
  if (!("Notification" in window) || Notification.permission !== "granted") return false;
  try {
    const notification = new Notification(clean(title), { body: clean(text), tag: id });
    notification.addEventListener("click", () => {
      window.focus();
      if (about) window.location.assign(jobPath(about));
      else if (event in EVENT_PAGES) window.location.assign(`${prefix}${EVENT_PAGES[event]}`);
      notification.close();
    });
    return true;
  } catch {
    return false; // browsers of telephones show none of pages
  }
}

/**
 * Asks by `ask`, and gives each answer to `take`, which takes none that was asked for before one that was taken already:
 * answers may arrive in another order. Answers a function that does so; it resolves when the answer was taken or was none.
 */
export function inOrder(ask, take) {
  let asked = 0;
  let taken = 0;
  return async () => {
    const turn = (asked += 1);
    const answer = await ask();
    if (answer === null || turn < taken) return;
    taken = turn;
    take(answer);
  };
}

/** Calls `draw` at most once per frame, however often it is asked to. */
export function oncePerFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/** Calls `work` at most once per `seconds`, the last call never lost. */
export function calmly(work, seconds) {
  let timer = null;
  let last = -Infinity;
  return () => {
    if (timer !== null) return;
    const wait = Math.max(0, last + 1000 * seconds - performance.now());
    timer = setTimeout(() => {
      timer = null;
      last = performance.now();
      work();
    }, wait);
  };
}

/** Shows what went wrong at the top of the page; nothing clears it. */
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
