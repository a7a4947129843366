/** Bookings of the next seven days, as a strip and a list, which admins cancel from. */

import { attempted, call } from "../site.js";
import { dataCells, dataTable } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { button } from "../visuals/base/glyphs.js";
import { clean, clock, exact, listed } from "../visuals/base/words.js";

const DAY_S = 86_400;
const DAYS = 7;
const DAY_FORMAT = new Intl.DateTimeFormat("en", { weekday: "short", day: "numeric" });
const HEADS = ["what", "from", "until", "again", "reason", "by", ""];

export class BookingList {
  /** @param admin whether the viewer may cancel; `changed` is called when there is something new to draw */
  constructor(admin, changed) {
    this.admin = admin;
    this.changed = changed;
    this.items = [];
    this.asking = null;
    this.busy = new Set();
  }

  async read() {
    const found = await attempted(() => call("GET", "bookings"));
    this.items = found?.items ?? this.items;
    this.changed();
  }

  /** The strip and the list; `now`: seconds since the epoch. */
  draw(now) {
    const heads = this.admin ? HEADS : HEADS.slice(0, -1);
    return [
      drawStrip(this.items, now),
      dataTable(
        "bookings",
        heads,
        this.items.map((booking) => this.#row(booking, heads, now)),
        { frame: "st-wide-table" },
      ),
    ];
  }

  #row(booking, heads, now) {
    const time = (at) => h("time", { datetime: new Date(at * 1000).toISOString(), title: exact(at) }, clock(at, now));
    const what = [
      h("span", { key: "what" }, whatOf(booking)),
      booking.begun && h("span", { key: "now", class: "st-muted" }, " (now)"),
    ];
    const cells = [
      what,
      time(booking.start),
      time(booking.end),
      clean(booking.repeats) || "–",
      clean(booking.why) || "–",
      clean(booking.by),
      this.admin && this.#actions(booking),
    ];
    return h(
      "tr",
      { key: String(booking.number), "data-testid": "booking" },
      dataCells(heads, cells.slice(0, heads.length), { what: "st-across", reason: "st-across" }),
    );
  }

  #actions(booking) {
    const { number } = booking;
    const about = { disabled: this.busy.has(number), "aria-label": `Cancel the ${whatOf(booking)}` };
    if (this.asking !== number) return button("booking-cancel", "Cancel…", () => this.#ask(number), about);
    return [
      button("booking-yes", "Cancel it", () => this.#cancel(number), about),
      button("booking-no", "Keep it", () => this.#ask(null), {}),
    ];
  }

  #ask(number) {
    this.asking = number;
    this.changed();
  }

  async #cancel(number) {
    this.busy.add(number);
    this.asking = null;
    this.changed();
    await attempted(() => call("DELETE", `bookings/${number}`));
    this.busy.delete(number);
    await this.read();
  }
}

function whatOf({ nodes, project, gpus }) {
  if (!project) return `maintenance of ${listed(nodes.map(clean))}`;
  const number = gpus !== null && typeof gpus === "object" ? typed(gpus) : `${gpus}`;
  return `booking of ${number} ${gpus === 1 ? "GPU" : "GPUs"} for ${clean(project)}`;
}

function typed(gpus) {
  return Object.entries(gpus)
    .map(([type, number]) => `${number} ${clean(type)}`)
    .join(", ");
}

/** Seven days from the beginning of today on, with a bar for each time of a booking. */
function drawStrip(items, now) {
  const first = new Date(now * 1000);
  first.setHours(0, 0, 0, 0);
  const start = first.getTime() / 1000;
  const share = (seconds) => `${(100 * seconds) / (DAYS * DAY_S)}%`;
  const names = Array.from({ length: DAYS }, (_, day) => DAY_FORMAT.format(new Date((start + day * DAY_S) * 1000)));
  const rows = items
    .map((booking) => ({ booking, times: booking.times.filter(([from]) => from < start + DAYS * DAY_S) }))
    .filter(({ times }) => times.length);
  return h(
    "div",
    { key: "strip", class: "st-week", "aria-hidden": "true", "data-testid": "bookings-strip" },
    h(
      "div",
      { key: "days", class: "st-week-days" },
      names.map((name) => h("span", { key: name }, name)),
    ),
    rows.map(({ booking, times }) =>
      h(
        "div",
        { key: String(booking.number), class: "st-week-row", title: whatOf(booking) },
        times.map(([from, to]) =>
          h("div", {
            key: String(from),
            class: booking.project ? "st-week-bar" : "st-week-bar st-hatched",
            style: {
              left: share(Math.max(0, from - start)),
              width: share(Math.min(to, start + DAYS * DAY_S) - Math.max(from, start)),
            },
          }),
        ),
      ),
    ),
    h("div", { key: "now", class: "st-week-now", style: { left: share(now - start) } }),
  );
}
