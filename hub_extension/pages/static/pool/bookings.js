/** Bookings of the next seven days, as a strip and a list, in which admins make, change and cancel them. */

import { attempted, call } from "../site.js";
import { dataCells, dataTable } from "../table.js";
import { UndoLine } from "../undo_line.js";
import { h } from "../visuals/base/dom.js";
import { button, colourOf, emptyState, timeMark } from "../visuals/base/glyphs.js";
import { clean, clock, day, listed, startOfDay, weekday } from "../visuals/base/words.js";
import { BookingForm } from "./booking_form.js";
import { describe, MINUTE_S, whatOf } from "./booking_words.js";

const DAYS = 7;
/** What ends the address of this page when its dialog is to open. */
const OPENS = "#book";
const NONE = "One closes nodes for a maintenance, or gives a project more GPUs for some days.";
const HEADS = ["what", "from", "until", "again", "reason", "by", ""];
const CLASSES = { what: "st-across", again: "st-across", reason: "st-across", by: "st-words" };

export class BookingList {
  /** @param admin whether the viewer may book; `changed` is called when there is something new to draw */
  constructor(admin, changed) {
    this.admin = admin;
    this.changed = changed;
    this.items = [];
    this.asking = null;
    this.done = new UndoLine("booking", changed, () => this.read());
    this.busy = new Set();
    this.isAsked = admin && window.location.hash === OPENS;
    this.form = new BookingForm(changed, (...answer) => this.#take(...answer));
    if (admin) window.addEventListener("hashchange", () => this.#follow());
  }

  #follow() {
    this.isAsked = window.location.hash === OPENS;
    this.changed();
  }

  async read() {
    const found = await attempted(() => call("GET", "bookings"));
    this.items = found?.items ?? this.items;
    this.changed();
  }

  /** Whether there is anything to see, or to do. */
  get isShown() {
    return this.admin || this.items.length > 0;
  }

  /** The button, the strip and the list; `now`: seconds since the epoch. */
  draw(pool, now) {
    const types = Object.keys(pool.projects[0]?.by_type ?? {});
    if (this.isAsked) this.#open(types);
    return [
      this.admin &&
        h(
          "p",
          { key: "book", class: "mb-2" },
          button("booking-make", "Book…", () => this.form.open(types)),
        ),
      this.done.draw(),
      this.items.length ? this.#list(types, coloursOf(pool), now) : emptyState("No bookings.", NONE),
      this.form.draw(pool),
    ];
  }

  /** Opens the dialog for who has come here to book; going back in the history leads to where they came from. */
  #open(types) {
    this.isAsked = false;
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
    this.form.open(types);
  }

  #list(types, colours, now) {
    const heads = this.admin ? HEADS : HEADS.slice(0, -1);
    const rows = this.items.map((booking) => this.#row(booking, types, heads, now));
    return [
      drawStrip(this.items, colours, now),
      dataTable("bookings", heads, rows, { classes: "st-bookings", frame: "st-wide-table" }),
    ];
  }

  #take({ booking, notes, entry }, isChange) {
    const before = isChange && this.items.find(({ number }) => number === booking.number);
    const undone = before ? `It is again: ${describe(before)}.` : `Cancelled: ${describe(booking)}.`;
    this.done.take(`${isChange ? "Changed" : "Made"}: ${describe(booking)}.`, entry, {
      notes,
      undone: `Undone. ${undone}`,
    });
    this.read();
  }

  #row(booking, types, heads, now) {
    const isShort = booking.end - booking.start < MINUTE_S;
    const time = (at) => timeMark(at, clock(at, now, isShort));
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
      this.admin && this.#actions(booking, types),
    ];
    return h(
      "tr",
      { key: String(booking.number), "data-testid": "booking" },
      dataCells(heads, cells.slice(0, heads.length), CLASSES),
    );
  }

  #actions(booking, types) {
    const { number } = booking;
    const about = { disabled: this.busy.has(number), "aria-label": `Cancel the ${whatOf(booking)}` };
    const change = { disabled: this.busy.has(number), "aria-label": `Change the ${whatOf(booking)}` };
    if (this.asking !== number)
      return h(
        "div",
        { key: "actions", class: "st-request-buttons" },
        button("booking-change", "Change…", () => this.form.open(types, booking), change),
        button("booking-cancel", "Cancel…", () => this.#ask(number), about),
      );
    return h(
      "div",
      { key: "question", class: "st-request-buttons" },
      button("booking-yes", "Cancel it", () => this.#cancel(booking), about),
      button("booking-no", "Keep it", () => this.#ask(null), {}),
    );
  }

  #ask(number) {
    this.asking = number;
    this.changed();
  }

  async #cancel(booking) {
    const { number } = booking;
    this.busy.add(number);
    this.asking = null;
    this.changed();
    const cancelled = await attempted(() => call("DELETE", `bookings/${number}`));
    if (cancelled) {
      const undone = `Undone. There is again: ${describe(booking)}.`;
      this.done.take(`Cancelled: ${whatOf(booking)}.`, cancelled.entry, { undone });
    }
    this.busy.delete(number);
    await this.read();
  }
}

/** A day in little room: `Fri 27`. */
function dayWords(at) {
  return `${weekday(at).slice(0, 3)} ${Number(day(at).slice(-2))}`;
}

/** The colours of projects, by their names. */
function coloursOf({ projects }) {
  return new Map(projects.map(({ name, colour }) => [name, colour]));
}

/** The place of the name of a booking: after its last bar, or in front of a bar that leaves no room there. */
function nameAt([from, to], share, start, end) {
  const room = (end - start) / DAYS;
  if (end - to >= room) return { left: share(to - start) };
  return from - start >= room ? { right: share(end - from) } : { left: share(0) };
}

/** Seven days from the beginning of today on, with a bar for each time of a booking. */
function drawStrip(items, colours, now) {
  const start = startOfDay(now);
  const end = startOfDay(now, DAYS);
  const share = (seconds) => `${(100 * seconds) / (end - start)}%`;
  const names = Array.from({ length: DAYS }, (_, days) => dayWords(startOfDay(now, days)));
  const rows = items
    .map((booking) => ({ booking, times: booking.times.filter(([from]) => from < end) }))
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
              ...(booking.project ? colourOf(colours.get(booking.project)) : {}),
              left: share(Math.max(0, from - start)),
              width: share(Math.min(to, end) - Math.max(from, start)),
            },
          }),
        ),
        h(
          "span",
          { key: "name", class: "st-week-name", style: nameAt(times.at(-1), share, start, end) },
          clean(booking.project) || listed(booking.nodes.map(clean)),
        ),
      ),
    ),
    h("div", { key: "now", class: "st-week-now", style: { left: share(now - start) } }),
  );
}
