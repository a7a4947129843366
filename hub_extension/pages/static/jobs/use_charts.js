/** The use of a job's GPUs over time, drawn like the metrics of the job. */

import { call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { calmly } from "../visuals/base/pace.js";
import { PLAIN } from "../visuals/charts/curve_shape.js";
import { renderMetricChart } from "../visuals/charts/metric_chart.js";

const EVERY_S = 10;
const GIB = 2 ** 30;

export class UseCharts {
  /**
   * @param path of the job in the API
   * @param changed called after new measurements
   */
  constructor(path, changed) {
    this.path = path;
    this.changed = changed;
    this.series = null;
    this.measured = undefined;
    this.span = PLAIN;
    this.read = calmly(() => this.#fetch(), EVERY_S);
  }

  /** Reads the measurements, and again whenever the job has newer ones; call it at each drawing. */
  follow({ usage }) {
    if (usage === this.measured) return;
    this.measured = usage;
    this.read();
  }

  /** A shape with nothing but the span of another one; the same object for the same span. */
  #spanOf({ from, to }) {
    if (this.span.from !== from || this.span.to !== to) this.span = { ...PLAIN, from, to };
    return this.span;
  }

  async #fetch() {
    const series = await call("GET", `${this.path}/usage`).catch(() => null);
    if (series === null) return;
    this.series = series;
    this.drawn = null;
    this.changed();
  }

  /**
   * The charts of quantities with at least two measurements, over time.
   * @param across the axis of the other charts, whose span holds here too if it is time
   * @param shape of the other charts
   * @param zoom called with the span that was selected
   */
  draw(job, colour, { across, shape }, zoom) {
    if (!this.series) return [];
    this.drawn ??= chartsOf(this.series, job);
    return this.drawn.map(({ name, points, bounds }) =>
      h("div", {
        key: `use ${name}`,
        "data-testid": "use-chart",
        draw: (node) =>
          renderMetricChart(node, {
            points,
            name,
            colour,
            bounds,
            across: "time",
            started: job.started,
            ...(across === "time" && { shape: this.#spanOf(shape), zoom }),
          }),
      }),
    );
  }
}

function chartsOf({ points, memory_total: total, simulated }, job) {
  const label = simulated ? ", simulated" : "";
  const small = points.every(({ memory_used: used }) => used === null || used < GIB);
  const [unit, length] = small ? ["MiB", GIB / 1024] : ["GiB", GIB];
  const values = [
    [`GPUs used (%${label})`, ({ utilization }) => utilization !== null && Math.round(100 * utilization), [0, 100]],
    [
      `GPU memory (${unit}${label})`,
      ({ memory_used: used }) => used !== null && Number((used / length).toPrecision(3)),
      [0, total && !small ? total / length : 0],
    ],
  ];
  return values
    .map(([name, read, bounds]) => ({
      name,
      bounds,
      points: points
        .filter((point) => Number.isFinite(read(point)))
        .map((point) => ({ at: point.at, attempt: attemptAt(job, point.at), values: { [name]: read(point) } })),
    }))
    .filter(({ points: found }) => found.length > 1);
}

/** The number of the attempt with the GPUs at the time `at`. */
function attemptAt({ attempts }, at) {
  return attempts.findLast(({ created }) => created <= at + EVERY_S)?.number ?? 1;
}
