/** Limits for repeated work: its rate, one call at a time, and the order of answers. */

/** Timers may be this much early. */
const EARLY_MS = 100;

/** Returns a function that calls `draw` at most once per frame. */
export function oncePerFrame(draw) {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      draw();
    });
  };
}

/** The time until the next whole number of `seconds` of the clock, in ms: what waits as long is drawn in one frame. */
function untilNext(seconds) {
  const every = 1000 * seconds;
  const wait = every - (Date.now() % every);
  return wait < EARLY_MS ? wait + every : wait;
}

/**
 * Draws `element` at once, and then, at most once per frame, after calls of `draw` while it is in sight. What changes out of
 * sight is drawn when it comes into sight. Returns `draw`, `stop`, and `now`, which draws at once: a field that opens takes the
 * keys that follow the one that opened it.
 * @param lasts returns how long a drawing stays true while nothing happens, in seconds; null if for good
 */
export function whileInSight(element, drawing, lasts = () => null) {
  let inSight = true;
  let timer = null;
  const now = () => {
    clearTimeout(timer);
    timer = null;
    if (!inSight) return;
    drawing();
    const seconds = lasts();
    if (seconds !== null) timer = setTimeout(draw, untilNext(seconds));
  };
  const draw = oncePerFrame(now);
  const watcher = new IntersectionObserver((entries) => {
    const before = inSight;
    inSight = entries.at(-1).isIntersecting;
    if (inSight && !before) draw();
  });
  const stop = () => {
    watcher.disconnect();
    clearTimeout(timer);
    inSight = false;
  };
  now();
  watcher.observe(element);
  return { draw, now, stop };
}

const drawings = new WeakMap();
let sight = null;

/**
 * Fills `element` by `drawing` if it is in sight or close to it, else as soon as it is. The last drawing given for an
 * element counts.
 */
export function drawInSight(element, drawing) {
  sight ??= new IntersectionObserver(drawSeen, { rootMargin: "400px" });
  const before = drawings.get(element);
  drawings.set(element, { isSeen: before?.isSeen ?? false, drawing });
  if (!before) sight.observe(element);
  else if (before.isSeen) drawing();
}

function drawSeen(entries) {
  for (const { target, isIntersecting } of entries) {
    const { drawing } = drawings.get(target);
    drawings.set(target, { isSeen: isIntersecting, drawing });
    if (isIntersecting) drawing();
  }
}

/** Calls `work` at most once per `seconds`; the last call is never lost. */
export function calmly(work, seconds) {
  let isWaiting = false;
  let last = -Infinity;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    const run = () => {
      isWaiting = false;
      last = performance.now();
      work();
    };
    setTimeout(run, Math.max(0, last + 1000 * seconds - performance.now()));
  };
}

/** Calls `work` at the next whole number of `seconds` of the clock, once for all calls until then. */
export function together(work, seconds) {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    const run = () => {
      isWaiting = false;
      work();
    };
    setTimeout(run, untilNext(seconds));
  };
}

/** Like `calmly`, for `work` that takes time: it never runs twice at once. */
export function oneByOne(work, seconds) {
  let running = false;
  let isWanted = false;
  const run = calmly(async () => {
    if (running) return;
    running = true;
    isWanted = false;
    try {
      await work();
    } finally {
      running = false;
    }
    if (isWanted) run();
  }, seconds);
  return () => {
    isWanted = true;
    if (!running) run();
  };
}

/**
 * Returns a function that requests by `ask` and passes each answer to `take`. An answer is dropped if that of a later
 * request was taken before it. The function resolves when the answer was taken, dropped or null.
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
