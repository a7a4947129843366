/** Server-sent events, read with `fetch`: unlike `EventSource` it can send a header, which carries the XSRF token. */

const RETRY_S = [1, 2, 4, 8, 15];
const OPEN_WITHIN_MS = 4000;
const ASK_EVERY_MS = 3000;
const TRY_AGAIN_MS = 60_000;
const TOO_MANY = 429;

/**
 * Follows the stream at `url` until the page is left, and connects again after a break.
 * Where the stream does not open in time, or is one too many, calls `on.again` every few seconds instead.
 * @param on `kind(data)` for each kind of event wanted, and `again()` when events may have been missed
 * @param show called with "live", "asking" or "away" when that changes
 */
export async function followStream(url, headers, on, show) {
  const follower = { url, headers, on, show, failures: 0, opened: false, last: null, abort: null, left: false };
  window.addEventListener(
    "pagehide",
    () => {
      follower.left = true;
      follower.abort?.abort();
    },
    { once: true },
  );
  while (!follower.left) {
    if (await listen(follower)) await askInstead(follower);
    else await pauseAfterBreak(follower);
  }
}

/** Reads the stream until it breaks. Answers whether it is held back on the way or one too many. */
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
    const headers = { ...follower.headers, ...resume, Accept: "text/event-stream" };
    const answer = await fetch(follower.url, { headers, credentials: "same-origin", cache: "no-store", signal: abort.signal });
    clearTimeout(timer);
    if (answer.status === TOO_MANY) return true;
    if (answer.status === 401) window.location.reload();
    if (!answer.ok) return false;
    opened(follower);
    await readEvents(answer.body, (event) => heard(follower, event));
  } catch {
    // Cut off, or nobody there: the caller tries again.
  } finally {
    clearTimeout(timer);
  }
  return late;
}

function opened(follower) {
  follower.show("live");
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

/** Parses a body of server-sent events and calls `tell` with the kind, id (or null) and data of each. */
async function readEvents(body, tell) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let fields = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line) {
        const [, name, text] = /^([^:]*):? ?(.*)$/.exec(line);
        fields[name] = text;
      } else {
        if ("data" in fields) tell({ kind: fields.event, id: fields.id ?? null, data: fields.data });
        fields = {};
      }
    }
  }
}

async function pauseAfterBreak(follower) {
  if (follower.left) return;
  follower.show("away");
  const seconds = RETRY_S[Math.min(follower.failures, RETRY_S.length - 1)];
  follower.failures += 1;
  await passed(1000 * seconds);
}

async function askInstead(follower) {
  if (follower.left) return;
  follower.show("asking");
  follower.opened = true;
  follower.on.again();
  const asking = setInterval(() => follower.on.again(), ASK_EVERY_MS);
  await passed(TRY_AGAIN_MS);
  clearInterval(asking);
}

function passed(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
