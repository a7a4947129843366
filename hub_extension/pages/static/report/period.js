/** The periods of reports, in days of UTC, and the intervals of their tide. */

import { iso } from "../visuals/base/words.js";

const DAY_MS = 86_400_000;
const HOURS_UNTIL_DAYS = 3;
const DAYS_UNTIL_WEEKS = 100;
const WEEKS_UNTIL_MONTHS = 800;
/** The length of the intervals of columns of times, in days. */
const DAYS = { day: 1, week: 7, month: 30 };
const FEWEST = 12;
const MOST = 400;

export const PERIODS = {
  month: "This month",
  "last-month": "Last month",
  days: "Last 30 days",
  year: "This year",
  days365: "Last 365 days",
  own: "From … to …",
};

/** The first and the last day of a period at a time in milliseconds; null for days of one's own. */
export function daysOf(period, now) {
  const today = new Date(now);
  const year = today.getUTCFullYear();
  const month = today.getUTCMonth();
  const spans = {
    month: [Date.UTC(year, month, 1), now],
    "last-month": [Date.UTC(year, month - 1, 1), Date.UTC(year, month, 0)],
    days: [now - 29 * DAY_MS, now],
    year: [Date.UTC(year, 0, 1), now],
    days365: [now - 364 * DAY_MS, now],
  };
  return spans[period]?.map(dayOf) ?? null;
}

function dayOf(at) {
  return iso(at / 1000).slice(0, 10);
}

/** The column by which the tide of a report has its intervals. */
export function tideColumn({ start, end }) {
  const days = (Date.parse(end) - Date.parse(start)) / DAY_MS + 1;
  if (days <= HOURS_UNTIL_DAYS) return "hour";
  if (days <= DAYS_UNTIL_WEEKS) return "day";
  return days <= WEEKS_UNTIL_MONTHS ? "week" : "month";
}

/** Whether the rows of a table by this column of times are as many intervals as a tide shows well. */
export function isTide(column, { start, end }) {
  const days = (Date.parse(end) - Date.parse(start)) / DAY_MS + 1;
  const intervals = days / (DAYS[column] ?? Infinity);
  return FEWEST <= intervals && intervals <= MOST;
}

/** All intervals of a report: their values in its column of times, begins and ends, in seconds; none is after `now`. */
export function intervalsOf({ start, end }, column, now) {
  const first = Date.parse(start);
  const last = Math.min(Date.parse(end) + DAY_MS, now);
  const found = [];
  for (let at = first; at < last; at = next(at, column))
    found.push({ name: nameOf(at, column), start: at / 1000, end: Math.min(next(at, column), last) / 1000 });
  return found;
}

function next(at, column) {
  const date = new Date(at);
  const day = Math.floor(at / DAY_MS) * DAY_MS;
  if (column === "hour") return at + DAY_MS / 24;
  if (column === "day") return day + DAY_MS;
  if (column === "week") return day + (8 - (date.getUTCDay() || 7)) * DAY_MS;
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}

function nameOf(at, column) {
  const text = iso(at / 1000);
  if (column === "hour") return `${text.slice(0, 10)} ${text.slice(11, 13)}:00`;
  if (column === "week") return weekOf(at);
  return column === "day" ? text.slice(0, 10) : text.slice(0, 7);
}

/** The week by ISO 8601, which is of the year of its Thursday. */
function weekOf(at) {
  const day = new Date(at).getUTCDay() || 7;
  const thursday = new Date(at + (4 - day) * DAY_MS);
  const year = thursday.getUTCFullYear();
  const week = Math.floor((thursday - Date.UTC(year, 0, 1)) / DAY_MS / 7) + 1;
  return `${year}-W${String(week).padStart(2, "0")}`;
}
