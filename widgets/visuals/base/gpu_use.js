/** The utilization of held GPUs: as a row of a job's card, and in words. */

import { h } from "./dom.js";
import { colourOf } from "./glyphs.js";
import { binarySize } from "./words.js";

/** `87 %`; a dash if the GPUs do not report it. */
export function percentWords(share) {
  return Number.isFinite(share) ? `${Math.round(100 * share)} %` : "–";
}

/** Memory in use, of how much if that is known: `24 of 160 GiB`. */
export function memoryWords({ memory_used: used, memory_total: total }) {
  if (!Number.isFinite(used)) return "–";
  return Number.isFinite(total) ? `${binarySize(used)} of ${binarySize(total)}` : binarySize(used);
}

/** The row of a card with the job's use of its GPUs and their memory. Nothing before the first measurement. */
export function drawUse(usage, colour) {
  if (!usage) return null;
  const simulated = usage.simulated ? " (simulated)" : "";
  return h(
    "div",
    { key: "use", class: "st-use", style: colourOf(colour), "data-testid": "job-use" },
    meter("GPUs used", `GPUs used${simulated}`, usage.utilization, percentWords(usage.utilization)),
    meter("memory", "GPU memory", usage.memory_used / usage.memory_total, memoryWords(usage)),
  );
}

function meter(key, name, share, words) {
  const known = Number.isFinite(share);
  const value = known ? Math.round(100 * Math.min(1, Math.max(0, share))) : null;
  return h(
    "div",
    { key, class: "st-meter" },
    h("span", { key: "name", class: "st-muted" }, name),
    known &&
      h(
        "div",
        {
          key: "track",
          class: "st-track",
          role: "meter",
          "aria-label": name,
          "aria-valuemin": 0,
          "aria-valuemax": 100,
          "aria-valuenow": value,
          "aria-valuetext": words,
        },
        h("div", { class: "st-fill", style: { width: `${value}%` } }),
      ),
    h("strong", { key: "words" }, words),
  );
}

/** The readings in an answer of `GET /pool/gpus`, by GPU UUID. */
export function readingsOf(usage) {
  return new Map((usage?.gpus ?? []).map((reading) => [reading.uuid, reading]));
}

/** The reading of one GPU in words, without values that it lacks. `shown`: those of the `PoolUsage`. */
export function gpuWords(reading, shown) {
  if (reading.lost) return "The driver cannot reach this GPU";
  const words = shown
    .filter(({ name, positive }) => Number.isFinite(reading[name]) && (reading[name] > 0 || !positive))
    .map(({ name, words, scale }) =>
      words.replace("{}", name === "memory_used" ? memoryWords(reading) : Math.round(scale * reading[name])),
    )
    .join(", ");
  return words && reading.simulated ? `${words} (simulated)` : words;
}

/** The mean use of several GPUs; null if none reports it. */
export function meanUse(readings) {
  const known = readings.filter((reading) => reading && !reading.lost && Number.isFinite(reading.utilization));
  return known.length ? known.reduce((sum, { utilization }) => sum + utilization, 0) / known.length : null;
}
