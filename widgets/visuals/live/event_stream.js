/** Server-sent events, read with `fetch`: unlike `EventSource` it can send a header, which carries the XSRF token. */

const RETRY_S = [1, 2, 2, 2, 4, 8, 15];
const OPEN_WITHIN_MS = 4000;
const SILENCE_MS = 40_000;
const ASK_EVERY_MS = 3000;
const HELD_BACK_MS = 60_000;
const LONGEST_WAIT_S = 600;
const TOO_MANY = 429;

/**
 * Opens an event stream.
 * @param source `address`, and `headers` of the page's log-in
 * @param headers further headers
 */
export function openStream({ address, headers: own }, headers, signal) {
  return fetch(address, { credentials: "same-origin", cache: "no-store", headers: { ...own, ...headers }, signal });
}

/**
 * Follows a stream until it is stopped, and reconnects after a break. Works in pages and in workers.
 * If the stream does not open in time, or exceeds the maximum number, asks for reads every few seconds instead: for a
 * minute, or for the time in `Retry-After` of the refusal.
 * @param open opens the stream: `open(headers, signal)` promises a `Response`
 * @param deliver `deliver(kind, text)` with each event, and `deliver("again")` when events may have been missed
 * @param show called with "live", "asking" or "away" when that changes, and with the problem in the response if any
 * @returns `stop()`; `hurry()`: do not wait to reconnect; `cut()`: reconnect, as the network has changed
 */
export function followStream(open, deliver, show) {
  const follower = {
    open,
    deliver,
    show,
    failures: 0,
    opened: false,
    last: null,
    abort: null,
    wake: null,
    stopped: false,
  };
  const hurry = () => follower.wake?.();
  const cut = () => follower.abort?.abort();
  const stop = () => {
    follower.stopped = true;
    cut();
    hurry();
  };
  followUntilStopped(follower);
  return { stop, hurry, cut };
}

/** Returns the `deliver` of a stream that parses events and passes them to `on`: `kind(data)` and `again()`. */
export function delivered(on) {
  return (kind, text) => {
    try {
      if (kind === "again") on.again();
      else on[kind]?.(JSON.parse(text));
    } catch (error) {
      reportError(error);
    }
  };
}

async function followUntilStopped(follower) {
  while (!follower.stopped) {
    const heldMs = await listen(follower);
    if (follower.stopped) return;
    if (heldMs) await askInstead(follower, heldMs);
    else await pauseAfterBreak(follower);
  }
}

/** Reads the stream until it breaks. Returns for how long to poll instead, if it was held back on the way or refused. */
async function listen(follower) {
  const abort = new AbortController();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    abort.abort();
  }, OPEN_WITHIN_MS);
  follower.abort = abort;
  try {
    const resume = follower.last === null ? {} : { "Last-Event-ID": follower.last };
    const answer = await follower.open({ ...resume, Accept: "text/event-stream" }, abort.signal);
    clearTimeout(timer);
    if (answer.status === TOO_MANY) return refusedMs(answer);
    if (!answer.ok) {
      follower.problem = await answer.json().catch(() => ({ status: answer.status }));
      return 0;
    }
    opened(follower);
    await readEvents(answer.body, abort, (event) => heard(follower, event));
  } catch {
    // The connection failed or broke: the caller tries again.
  } finally {
    clearTimeout(timer);
  }
  return late ? HELD_BACK_MS : 0;
}

/** The time to wait after a refused stream, in milliseconds. */
function refusedMs(answer) {
  const seconds = Number.parseInt(answer.headers.get("Retry-After") ?? "", 10);
  return seconds > 0 ? 1000 * Math.min(seconds, LONGEST_WAIT_S) : HELD_BACK_MS;
}

function opened(follower) {
  follower.problem = null;
  follower.show("live", null);
  if (follower.opened) follower.deliver("again");
  follower.opened = true;
  follower.failures = 0;
}

function heard(follower, { kind, id, data }) {
  if (id !== null) follower.last = id;
  follower.deliver(kind === "refetch" ? "again" : kind, data);
}

/**
 * Parses a body of server-sent events and calls `deliver` with the kind, id (or null) and data of each. A connection
 * without any data, not even a heartbeat, is aborted.
 */
async function readEvents(body, abort, deliver) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let fields = {};
  for (;;) {
    const silent = setTimeout(() => abort.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line) {
        const [, name, text] = /^([^:]*):? ?(.*)$/.exec(line);
        fields[name] = text;
      } else {
        if ("data" in fields) deliver({ kind: fields.event, id: fields.id ?? null, data: fields.data });
        fields = {};
      }
    }
  }
}

async function pauseAfterBreak(follower) {
  follower.show("away", follower.problem ?? null);
  const seconds = RETRY_S[Math.min(follower.failures, RETRY_S.length - 1)];
  follower.failures += 1;
  await passed(follower, 1000 * seconds);
}

async function askInstead(follower, milliseconds) {
  follower.show("asking", null);
  follower.opened = true;
  follower.deliver("again");
  const asking = setInterval(() => follower.deliver("again"), ASK_EVERY_MS);
  await passed(follower, milliseconds);
  clearInterval(asking);
}

/** Resolves after `milliseconds`, or earlier when there is a reason not to wait. */
function passed(follower, milliseconds) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    follower.wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}
