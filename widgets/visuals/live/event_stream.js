/** Server-sent events, read with `fetch`: unlike `EventSource` it can send a header, which carries the XSRF token. */

const RETRY_S = [1, 2, 2, 2, 4, 8, 15];
const OPEN_WITHIN_MS = 4000;
const SILENCE_MS = 40_000;
const ASK_EVERY_MS = 3000;
const HELD_BACK_MS = 60_000;
const LONGEST_WAIT_S = 600;
const HIDDEN_MS = 30_000;
const TOO_MANY = 429;

/**
 * Follows a stream until it is stopped, and reconnects after a break: at once when the network is back.
 * If the stream does not open in time, or exceeds the maximum number, calls `on.again` every few seconds instead: for a
 * minute, or for the time in `Retry-After` of the refusal. A hidden page closes its connection after a while, because
 * browsers allow few connections to one server.
 * @param open opens the stream: `open(headers, signal)` promises a `Response`
 * @param on `kind(data)` for each kind of event to follow, and `again()` when events may have been missed
 * @param show called with "live", "asking" or "away" when that changes, and with the problem in the response if any
 * @returns `stop()`
 */
export function followStream(open, on, show) {
  const follower = { open, on, show, failures: 0, opened: false, last: null, abort: null, wake: null, stopped: false };
  const hurry = () => follower.wake?.();
  const cut = () => follower.abort?.abort();
  let hiding = null;
  const look = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(cut, HIDDEN_MS);
    else hurry();
  };
  const leave = listenTo([window, "online", hurry], [window, "offline", cut], [document, "visibilitychange", look]);
  const stop = () => {
    follower.stopped = true;
    clearTimeout(hiding);
    leave();
    cut();
    hurry();
  };
  followUntilStopped(follower);
  return { stop };
}

function listenTo(...listeners) {
  for (const [target, type, listener] of listeners) target.addEventListener(type, listener);
  return () => {
    for (const [target, type, listener] of listeners) target.removeEventListener(type, listener);
  };
}

async function followUntilStopped(follower) {
  while (!follower.stopped) {
    const heldMs = await listen(follower);
    if (follower.stopped) return;
    if (document.hidden && !heldMs) await seen(follower);
    else if (heldMs) await askInstead(follower, heldMs);
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
      follower.problem = await answer.json().catch(() => null);
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
  if (follower.opened) follower.on.again();
  follower.opened = true;
  follower.failures = 0;
}

function heard(follower, { kind, id, data }) {
  if (id !== null) follower.last = id;
  try {
    if (kind === "refetch") follower.on.again();
    else follower.on[kind]?.(JSON.parse(data));
  } catch (error) {
    reportError(error);
  }
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

/** Resolves when the page is visible again, or the stream is stopped. */
function seen(follower) {
  return new Promise((resolve) => {
    follower.wake = resolve;
  });
}

async function askInstead(follower, milliseconds) {
  follower.show("asking", null);
  follower.opened = true;
  follower.on.again();
  const asking = setInterval(() => follower.on.again(), ASK_EVERY_MS);
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
