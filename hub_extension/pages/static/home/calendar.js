/** The next seven days: what begins and what ends, by day. */

import { site } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { timeMark } from "../visuals/base/glyphs.js";
import { clean, clock, startOfDay, weekdayAndDay } from "../visuals/base/words.js";

const DAYS = 7;

/** The entries of a `Home.calendar`, under each of the next days that has some. */
export function drawCalendar(entries, now) {
  const days = Array.from({ length: DAYS + 1 }, (_, ahead) => weekdayAndDay(startOfDay(now, ahead)));
  const byDay = Map.groupBy(entries, ({ at }) => weekdayAndDay(at));
  return h(
    "div",
    { key: "calendar", class: "st-home-calendar", "data-testid": "home-calendar" },
    h(
      "header",
      { key: "head", class: "st-home-head" },
      h("h2", { key: "title" }, "Next seven days"),
      h(
        "a",
        { key: "book", class: "st-button st-small", href: `${site.prefix}pool#book`, "data-testid": "home-book" },
        "Book…",
      ),
    ),
    entries.length === 0 && h("p", { key: "none", class: "st-muted" }, "Nothing begins or ends by itself."),
    days
      .filter((words) => byDay.has(words))
      .map((words) =>
        h(
          "div",
          { key: words, class: "st-home-day" },
          h("h3", { key: "day", class: "st-home-type" }, words === days[0] ? `Today, ${words}` : words),
          h(
            "ul",
            { key: "entries", class: "st-home-list" },
            byDay.get(words).map((entry) => drawEntry(entry)),
          ),
        ),
      ),
  );
}

function drawEntry({ at, said, page }) {
  return h(
    "li",
    { key: `${at} ${said}` },
    timeMark(at, clock(at, at), { key: "at", class: "st-muted" }),
    " ",
    h("a", { key: "said", href: `${site.prefix}${page}` }, clean(said)),
  );
}
