/** A curve of the size of a word: the metric of one trial over its steps. */

import { s } from "../base/dom.js";
import { amount } from "../base/words.js";
import { fraction } from "./scale.js";

const SPARK = { width: 80, height: 20, edge: 2 };

/** The curve of pairs of step and value, as a description; nothing while there are fewer than two. */
export function sparkline(curve, name) {
  const points = curve.filter(([step, value]) => Number.isFinite(step) && Number.isFinite(value));
  if (points.length < 2) return null;
  const [x, y] = [0, 1].map((part) => scaled(points.map((point) => point[part])));
  const d = points
    .map(
      (point, place) =>
        `${place ? "L" : "M"}${(SPARK.edge + x(point[0]) * (SPARK.width - 2 * SPARK.edge)).toFixed(1)} ${(SPARK.edge + (1 - y(point[1])) * (SPARK.height - 2 * SPARK.edge)).toFixed(1)}`,
    )
    .join("");
  const words = `${name} from ${amount(points[0][1])} to ${amount(points.at(-1)[1])}`;
  return s(
    "svg",
    {
      key: "spark",
      class: "st-spark",
      viewBox: `0 0 ${SPARK.width} ${SPARK.height}`,
      width: SPARK.width,
      height: SPARK.height,
      role: "img",
      "aria-label": words,
    },
    s("title", { key: "title" }, words),
    s("path", { key: "line", class: "st-line", d }),
  );
}

function scaled(values) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  return (value) => fraction(value, low, high);
}
