/** The pool in five numbers, each with its last 30 days, and by GPU type on hover and focus. */

import { h } from "../visuals/base/dom.js";
import { amount, clean } from "../visuals/base/words.js";
import { sparkline } from "../visuals/charts/sparkline.js";
import { tenths, waitWords } from "./wait_words.js";

const NUMBERS = [
  { key: "held", title: "GPUs held", words: (of) => `${amount(of.held.now)} of ${amount(of.gpus)}`, line: "held" },
  { key: "used", title: "of these used", words: (of) => share(of.used.now), line: "used" },
  {
    key: "wait",
    title: "waited today: half, 95 %",
    words: (of) => `${waitWords(of.wait_p50.now)}, ${waitWords(of.wait_p95.now)}`,
    line: "wait_p95",
  },
  { key: "idle", title: "idle although jobs wait", words: (of) => amount(of.idle.now), line: "idle" },
  { key: "people", title: "people with work", words: (of) => amount(of.people.now), line: "people" },
];
const SHOWN = { held: tenths, used: share, wait_p95: waitWords, idle: tenths, people: tenths };

/** The cards of a `Home`. */
export function drawNumberCards({ numbers, days, idle_since: idleSince }) {
  const all = numbers[""];
  const types = Object.entries(numbers).filter(([name]) => name);
  return h(
    "div",
    { key: "cards", class: "st-home-cards", "data-testid": "home-numbers" },
    NUMBERS.map((number) => drawCard(number, all, types, days, idleSince)),
  );
}

function drawCard({ key, title, words, line }, all, types, days, idleSince) {
  const lines = [`${title}: ${words(all)}`, ...types.map(([name, of]) => `${clean(name)}: ${words(of)}`)];
  const series = all[line].days;
  lines.push(...pastWords(series, days, SHOWN[line]));
  if (key === "idle" && idleSince > days[0]) lines.push(`Counted since ${idleSince}`);
  return h(
    "div",
    {
      key,
      class: "st-home-card",
      role: "group",
      tabindex: 0,
      "aria-label": lines.join(". "),
      "data-tip": lines.join("\n"),
      "data-testid": `home-number-${key}`,
    },
    h("div", { key: "title", class: "st-home-title" }, title),
    h("div", { key: "value", class: "st-home-value" }, words(all)),
    h("div", { key: "past", class: "st-home-past", "aria-hidden": "true" }, sparkline(curveOf(series), title)),
  );
}

function curveOf(days) {
  return days.map((value, at) => [at, value]).filter(([, value]) => value !== null);
}

/** The lowest and the highest of the days; nothing of fewer than two. */
function pastWords(series, days, write) {
  const known = series.map((value, at) => ({ value, day: days[at] })).filter(({ value }) => value !== null);
  if (known.length < 2) return [];
  const byValue = known.toSorted((one, other) => one.value - other.value);
  const [low, high] = [byValue[0], byValue.at(-1)];
  return [`30 days: ${write(low.value)} (${low.day}) to ${write(high.value)} (${high.day})`];
}

function share(part) {
  return part === null ? "–" : `${Math.round(100 * part)} %`;
}
