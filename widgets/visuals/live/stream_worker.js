/**
 * A shared worker with one event stream for all pages of a browser that have the same log-in at the same server.
 *
 * Its name is known to these pages alone, because the XSRF token is a part of it. A page is a member while it
 * may be seen, or while it is to notify. Messages of a page: `join` (its `source`, `kinds` and `only`), again with other
 * kinds, `leave`, `here`, `online`, `offline`; to a page: `joined`, `beat`, `state` with `problem`, and `kind` with `text`, as `followStream` delivers them.
 */

import { followStream, openStream } from "./event_stream.js";

const BEAT_MS = 5000;
const GONE_MS = 20_000;
const OF_ALL_JOBS = new Set(["pool", "gpus", "admin"]);

const members = new Map();
const shared = { source: null, stream: null, beats: null, connection: null, pool: null };

self.addEventListener("connect", ({ ports: [port] }) => {
  port.addEventListener("message", ({ data }) => take(port, data));
  port.addEventListener("close", () => leave(port));
  port.start();
});

function take(port, message) {
  if (message.join) return join(port, message.join);
  const member = members.get(port);
  if (!member) return;
  member.heardAt = performance.now();
  if (message.leave) leave(port);
  if (message.online) shared.stream.hurry();
  if (message.offline) shared.stream.cut();
}

/** Sends a member, new or with new kinds, the state of the connection and the pool, with which a stream of its own would begin. */
function join(port, { source, kinds, only }) {
  members.set(port, { kinds: new Set(kinds), only, heardAt: performance.now() });
  shared.source = source;
  port.postMessage({ joined: true });
  if (shared.stream === null) return start();
  shared.stream.hurry();
  if (shared.connection) port.postMessage(shared.connection);
  if (shared.pool && isFor(members.get(port), "pool", () => null)) port.postMessage(shared.pool);
}

function start() {
  const open = (headers, signal) => openStream(shared.source, headers, signal);
  shared.stream = followStream(open, deliver, (state, problem) => {
    shared.connection = { state, problem };
    if (state !== "live") shared.pool = null;
    for (const port of members.keys()) port.postMessage(shared.connection);
  });
  shared.beats = setInterval(beat, BEAT_MS);
}

/** Ends the membership of a page; the stream ends with that of the last one. */
function leave(port) {
  if (!members.delete(port) || members.size > 0) return;
  clearInterval(shared.beats);
  shared.stream.stop();
  Object.assign(shared, { source: null, stream: null, beats: null, connection: null, pool: null });
}

/** Pages answer a beat. One that is frozen or has crashed does not, and is a member no longer. */
function beat() {
  const latest = performance.now() - GONE_MS;
  for (const [port, { heardAt }] of members) {
    if (heardAt < latest) leave(port);
    else port.postMessage({ beat: true });
  }
}

function deliver(kind, text) {
  const message = { kind, text };
  if (kind === "pool") shared.pool = message;
  let job;
  const jobOf = () => {
    job ??= idIn(text);
    return job;
  };
  for (const [port, member] of members) if (isFor(member, kind, jobOf)) port.postMessage(message);
}

/** Whether a member follows an event; `jobOf()` returns the job that the event is about. */
function isFor({ kinds, only }, kind, jobOf) {
  if (kind === "again") return true;
  if (!kinds.has(kind)) return false;
  if (!only || kind === "notification") return true;
  return !OF_ALL_JOBS.has(kind) && jobOf() === only;
}

function idIn(text) {
  const { id, job } = JSON.parse(text);
  return id ?? job ?? "";
}
