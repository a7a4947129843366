/** When work is done: not too often, one after the other, in the order in which it was asked for. */

/** Calls `draw` at most once per frame, however often it is asked to. */
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

/** The same for `work` that takes time: it never runs twice at once. */
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
 * Asks by `ask`, and gives each answer to `take`, except those to questions older than one that was taken already: answers
 * may arrive in another order. Returns a function that does so; it resolves when the answer was taken or was null.
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
