/** A page's part in the event stream that all pages with the same log-in share in a browser. */

import { delivered, followStream, openStream } from "./event_stream.js";

const WORKER = new URL("./stream_worker.js", import.meta.url);
const HIDDEN_MS = 30_000;
const JOINED_WITHIN_MS = 4000;
const SILENT_MS = 15_000;
const AGAIN_MS = 10_000;
const TURN_WITHIN_MS = 1000;
const OPEN = new Set(["live", "asking"]);
const REFUSED = new Set([401, 403]);
const NOTHING = { isWanted: () => false, on: {} };

/**
 * Follows the events of a server while the page is visible. Browsers allow six connections to one server, all pages
 * together, so a shared worker has the only stream. Where a browser has no shared workers, the page has a stream of its
 * own, and leaves it as soon as it is hidden. A page out of sight may go on to follow a few kinds, such as
 * notifications; without shared workers one such page at a time does. When reads have failed, events count as missed
 * until one is answered.
 * @param source returns the present `address` of the stream, the `user`, and the `headers` of the log-in
 * @param reads the `Reads` of the page
 * @param on `kind(data)` for each kind of event to follow, `opened()` when the stream first opens, and `again()` when
 *   events may have been missed
 * @param show called with the state of `contactOf`, the problem in the response if any, whether the stream is open, and
 *   whether it is this page's own
 * @param only id of the one job to follow, or null for all
 * @param hidden what to follow out of sight: `on` with `kind(data)` for each kind, if `isWanted()`
 * @returns `stop()`, and `look()` when `isWanted()` may have changed
 */
export function followEvents(source, reads, on, show, { only = null, hidden = NOTHING } = {}) {
  const stream = new PageStream(source, reads, on, show, only, hidden);
  return { stop: () => stream.stop(), look: () => stream.lookAside() };
}

/** The contact of a page: "connecting" before the first answer, "waiting" for one that is overdue, "away", or the stream's. */
export function contactOf(stream, { isLate, hasFailed, isAnswered }) {
  if (stream === "away") return "away";
  if (isLate) return "waiting";
  if (hasFailed) return "away";
  return isAnswered ? stream : "connecting";
}

class PageStream {
  constructor(source, reads, on, show, only, hidden) {
    Object.assign(this, { source, reads, on, show, only, hidden });
    this.isAside = false;
    const [inSight, outOfSight] = [delivered(on), delivered({ again: () => {}, ...hidden.on })];
    this.deliver = (kind, text) => (this.isAside ? outOfSight : inSight)(kind, text);
    this.member = null;
    this.own = null;
    this.turn = null;
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
      [document, "freeze", () => this.#freeze()],
      [document, "resume", () => this.#thaw()],
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
    this.turn?.abort();
    this.#rest();
  }

  /** Looks again at what a page out of sight is to follow. */
  lookAside() {
    if (this.isAside) this.#stepAside();
  }

  #look() {
    clearTimeout(this.hiding);
    if (!document.hidden) this.#comeBack();
    else if (this.own) this.#stepAside();
    else this.hiding = setTimeout(() => this.#stepAside(), HIDDEN_MS);
  }

  #stepAside() {
    this.isAside = true;
    this.hasMissed = true;
    if (!this.hidden.isWanted()) {
      this.turn?.abort();
      this.#rest();
    } else if (this.isAlone) this.#waitForTurn();
    else if (this.member) this.#ask();
    else this.#join();
  }

  #comeBack() {
    const wasAside = this.isAside;
    this.isAside = false;
    this.turn?.abort();
    this.#attend();
    if (!wasAside) return;
    if (this.own) this.#streamed(this.stream.state, this.stream.problem);
    else if (this.member) this.#ask();
  }

  /** Gives up the stream and the turn, which a frozen page would keep from the others. */
  #freeze() {
    clearTimeout(this.hiding);
    this.turn?.abort();
    this.#rest();
  }

  #thaw() {
    if (document.hidden) this.#stepAside();
    else this.#comeBack();
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

  /** Asks the worker for the kinds to follow now; it answers with the state of the stream. */
  #ask() {
    const { member, only } = this;
    const { on } = this.isAside ? this.hidden : this;
    member.port.postMessage({ join: { source: member.source, kinds: Object.keys(on), only } });
  }

  #join() {
    const source = this.source();
    let worker = null;
    try {
      worker = new SharedWorker(WORKER, { type: "module", name: JSON.stringify(source) });
    } catch {
      return this.#doWithout();
    }
    const { port } = worker;
    const member = { port, source, heardAt: performance.now(), silent: null };
    this.member = member;
    const isCurrent = () => this.member === member;
    const joining = setTimeout(() => isCurrent() && this.#doWithout(), JOINED_WITHIN_MS);
    worker.addEventListener("error", () => isCurrent() && this.#doWithout());
    port.addEventListener("close", () => isCurrent() && this.#rejoin());
    port.addEventListener("message", ({ data }) => {
      if (data.joined) clearTimeout(joining);
      if (isCurrent()) this.#hear(data);
    });
    port.start();
    this.#ask();
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
    if (problem && JSON.stringify(member.source) !== JSON.stringify(this.source())) this.#rejoin();
  }

  /** Joins again, because the worker is gone or the log-in is another one. */
  #rejoin() {
    this.#rest();
    this.#streamed("connecting", null);
    if (!document.hidden) this.#attend();
    else this.lookAside();
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

  /** Goes on without a shared worker. */
  #doWithout() {
    this.isAlone = true;
    this.#rest();
    if (this.isAside) this.#waitForTurn();
    else this.#followAlone();
  }

  /** Follows out of sight as soon as no other page does so with a stream of its own. */
  #waitForTurn() {
    if (this.turn && !this.turn.signal.aborted) return;
    this.turn = new AbortController();
    const { signal } = this.turn;
    const waiting = setTimeout(() => this.isAside && this.#rest(), TURN_WITHIN_MS);
    const follow = () => {
      clearTimeout(waiting);
      if (!this.own) this.#followAlone();
      return new Promise((resolve) => signal.addEventListener("abort", resolve));
    };
    const ended = () => clearTimeout(waiting); // the page is in sight again, or gone
    navigator.locks?.request(`springtide-out-of-sight ${this.source().address}`, { signal }, follow).catch(ended);
  }

  #followAlone() {
    this.#rest();
    const query = this.only ? `?${new URLSearchParams({ job: this.only })}` : "";
    const open = (headers, signal) => {
      const source = this.source();
      return openStream({ ...source, address: `${source.address}${query}` }, headers, signal);
    };
    this.own = followStream(open, this.deliver, (state, problem) => this.#streamed(state, problem));
  }

  #streamed(state, problem) {
    this.stream = { state, problem };
    if (this.isAside) {
      if (REFUSED.has(problem?.status)) this.#rest();
      return;
    }
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
