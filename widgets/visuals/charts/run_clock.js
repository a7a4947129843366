/** What metrics are drawn over: steps, the time since the start of the job, or that time without its pauses. */

export const ACROSS = {
  step: { choice: "steps", title: "step" },
  time: { choice: "time", title: "time since the start" },
  running: { choice: "time without pauses", title: "time since the start, without pauses" },
};

/** The axis for some reports: the chosen one, or time if one of them has no step. */
export function acrossOf(chosen, points) {
  return chosen === "step" && !points.every((point) => Number.isFinite(point.step)) ? "time" : chosen;
}

/**
 * The place of a job's report on an axis, as a function: its step, or seconds since the start of the job. A pause is the
 * time from the last report of an attempt to the first one of the next.
 * @param reports all of the job
 * @param started when its first attempt started; time begins at the first report if that came earlier, or if it is null
 */
export function placeOf(across, reports, started) {
  if (across === "step") return (point) => point.step;
  const first = reports[0]?.at ?? 0;
  const start = Math.min(started ?? first, first);
  if (across === "time") return (point) => point.at - start;
  const pauses = pausesBefore(reports);
  return (point) => point.at - start - pauses.get(point.attempt);
}

/** The seconds of pauses before each attempt, by its number. */
function pausesBefore(reports) {
  const before = new Map();
  let paused = 0;
  reports.forEach((report, place) => {
    const earlier = reports[place - 1];
    if (earlier && earlier.attempt !== report.attempt) paused += Math.max(0, report.at - earlier.at);
    before.set(report.attempt, paused);
  });
  return before;
}
