/** A page's part in the event stream that all pages with the same log-in share in a browser. */

import { delivered, followStream, openStream } from "./event_stream.js";

const WORKER = new URL("./stream_worker.js", import.meta.url);
const HIDDEN_MS = 30_000;
const JOINED_WITHIN_MS = 4000;
const SILENT_MS = 6000;
const AGAIN_MS = 10_000;
const OPEN = new Set(["live", "asking"]);

/**
 * Follows the events of a server while the page is visible. Browsers allow six connections to one server, all pages
 * together, so a shared worker has the only stream. Where a browser has no shared workers, the page has a stream of its
 * own, and closes it as soon as it is hidden. When reads have failed, events count as missed until one is answered.
 * @param source returns the present `address` of the stream, the `user`, and the `headers` of the log-in
 * @param reads the `Reads` of the page
 * @param on `kind(data)` for each kind of event to follow, `opened()` when the stream first opens, and `again()` when
 *   events may have been missed
 * @param show called with the state of `contactOf`, the problem in the response if any, whether the stream is open, and
 *   whether it is this page's own
 * @param only id of the one job to follow, or null for all
 * @returns `stop()`
 */
export function followEvents(source, reads, on, show, only = null) {
  const stream = new PageStream(source, reads, on, show, only);
  return { stop: () => stream.stop() };
}

/** The contact of a page: "connecting" before the first answer, "waiting" for one that is overdue, "away", or the stream's. */
export function contactOf(stream, { isLate, hasFailed, isAnswered }) {
  if (stream === "away") return "away";
  if (isLate) return "waiting";
  if (hasFailed) return "away";
  return isAnswered ? stream : "connecting";
}

class PageStream {
  constructor(source, reads, on, show, only) {
    Object.assign(this, { source, reads, on, show, only });
    this.deliver = delivered(on);
    this.member = null;
    this.own = null;
    this.isAlone = typeof SharedWorker === "undefined";
    this.stream = { state: "connecting", problem: null };
    this.hasOpened = false;
    this.hasMissed = false;
    this.hiding = null;
    this.again = null;
    this.leave = listenTo(
      [window, "online", () => this.#networkChanged("online")],
      [window, "offline", () => this.#networkChanged("offline")],
      [document, "visibilitychange", () => this.#look()],
    );
    this.unwatch = reads.watch(() => this.#tell());
    this.#look();
    if (!this.own && !this.member) this.#attend();
  }

  stop() {
    this.leave();
    this.unwatch();
    clearTimeout(this.hiding);
    clearTimeout(this.again);
    this.#rest();
  }

  #look() {
    clearTimeout(this.hiding);
    if (!document.hidden) this.#attend();
    else if (this.own) this.#rest();
    else this.hiding = setTimeout(() => this.#rest(), HIDDEN_MS);
  }

  #networkChanged(what) {
    this.member?.port.postMessage({ [what]: true });
    if (what === "online") this.own?.hurry();
    else this.own?.cut();
    this.deliver("again");
  }

  #attend() {
    if (this.own) return this.own.hurry();
    if (this.member && performance.now() - this.member.heardAt < SILENT_MS) return;
    this.#rest();
    if (this.isAlone) this.#followAlone();
    else this.#join();
  }

  #join() {
    const source = this.source();
    let worker = null;
    try {
      worker = new SharedWorker(WORKER, { type: "module", name: JSON.stringify(source) });
    } catch {
      return this.#followAlone();
    }
    const { port } = worker;
    const member = { port, name: JSON.stringify(source), heardAt: performance.now(), silent: null };
    this.member = member;
    const isCurrent = () => this.member === member;
    const joining = setTimeout(() => isCurrent() && this.#followAlone(), JOINED_WITHIN_MS);
    worker.addEventListener("error", () => isCurrent() && this.#followAlone());
    port.addEventListener("close", () => isCurrent() && this.#rejoin());
    port.addEventListener("message", ({ data }) => {
      if (data.joined) clearTimeout(joining);
      if (isCurrent()) this.#hear(data);
    });
    port.start();
    port.postMessage({ join: { source, kinds: Object.keys(this.on), only: this.only } });
  }

  #hear({ joined, beat, state, problem, kind, text }) {
    const { member } = this;
    member.heardAt = performance.now();
    if (joined || beat) {
      clearTimeout(member.silent);
      member.silent = setTimeout(() => this.#rejoin(), SILENT_MS);
    }
    if (beat) member.port.postMessage({ here: true });
    if (state) this.#streamed(state, problem);
    if (kind) this.deliver(kind, text);
    if (problem && member.name !== JSON.stringify(this.source())) this.#rejoin();
  }

  /** Joins again, because the worker is gone or the log-in is another one. */
  #rejoin() {
    this.#rest();
    this.#streamed("connecting", null);
    if (!document.hidden) this.#attend();
  }

  #rest() {
    const { member, own } = this;
    if (!member && !own) return;
    this.member = null;
    this.own = null;
    this.hasMissed = true;
    clearTimeout(member?.silent);
    member?.port.postMessage({ leave: true });
    member?.port.close();
    own?.stop();
  }

  #followAlone() {
    this.#rest();
    this.isAlone = true;
    const query = this.only ? `?${new URLSearchParams({ job: this.only })}` : "";
    const open = (headers, signal) => {
      const source = this.source();
      return openStream({ ...source, address: `${source.address}${query}` }, headers, signal);
    };
    this.own = followStream(open, this.deliver, (state, problem) => this.#streamed(state, problem));
  }

  #streamed(state, problem) {
    this.stream = { state, problem };
    this.#tell();
    if (!OPEN.has(state)) return;
    if (!this.hasOpened) this.on.opened?.();
    else if (this.hasMissed) this.deliver("again");
    this.hasOpened = true;
    this.hasMissed = false;
  }

  #tell() {
    const { state, problem } = this.stream;
    const isOpen = OPEN.has(state);
    this.show(contactOf(state, this.reads), problem, isOpen, this.own !== null);
    if (!isOpen || !this.reads.hasFailed || this.again !== null) return;
    this.again = setTimeout(() => {
      this.again = null;
      if (this.reads.hasFailed && !document.hidden) this.deliver("again");
    }, AGAIN_MS);
  }
}

function listenTo(...listeners) {
  for (const [target, type, listener] of listeners) target.addEventListener(type, listener);
  return () => {
    for (const [target, type, listener] of listeners) target.removeEventListener(type, listener);
  };
}
