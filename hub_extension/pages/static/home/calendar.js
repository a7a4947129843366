/** The next seven days: what begins and what ends, by day. */

import { site } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { clean, clock, exact } from "../visuals/base/words.js";

const DAY_MS = 86_400_000;
const DAYS = 7;

/** The entries of a `Home.calendar`, under each of the next days that has some. */
export function drawCalendar(entries, now) {
  const days = Array.from({ length: DAYS + 1 }, (_, at) => dayOf(new Date(1000 * now + at * DAY_MS)));
  const byDay = Map.groupBy(entries, ({ at }) => dayOf(new Date(1000 * at)));
  return h(
    "div",
    { key: "calendar", class: "st-home-calendar", "data-testid": "home-calendar" },
    h("h2", { key: "title" }, "Next seven days"),
    entries.length === 0 && h("p", { key: "none", class: "st-muted" }, "Nothing begins or ends by itself."),
    days
      .filter((day) => byDay.has(day))
      .map((day) =>
        h(
          "div",
          { key: day, class: "st-home-day" },
          h("h3", { key: "day", class: "st-home-type" }, day === days[0] ? `Today, ${day}` : day),
          h(
            "ul",
            { key: "entries", class: "st-home-list" },
            byDay.get(day).map((entry) => drawEntry(entry)),
          ),
        ),
      ),
  );
}

function drawEntry({ at, said, page }) {
  return h(
    "li",
    { key: `${at} ${said}` },
    h(
      "time",
      { key: "at", class: "st-muted", title: exact(at), datetime: new Date(1000 * at).toISOString() },
      clock(at, at),
    ),
    " ",
    h("a", { key: "said", href: `${site.prefix}${page}` }, clean(said)),
  );
}

function dayOf(date) {
  return date.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "short" });
}
