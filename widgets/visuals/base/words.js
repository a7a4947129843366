/**
 * Formats quantities, times and hostile text for people. Times are seconds since the epoch.
 * `scheduler/wording.py` does the same for the sentences of the service, and says which form of a time is for what;
 * both are tested with the cases of `tests/scheduler/times.json`.
 */

const RECENT_S = 3600;
const RECENT_LASTS_S = 10;
const OLD_LASTS_S = 60;
/** The time after which what has happened is given by its day. */
const WEEK_S = 7 * 86400;
const ESCAPES =
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
/** Moves of a terminal's cursor that progress bars make, and an escape sequence whose end is still to come. */
const HOME = /\u001b\[[01]?G/g;
const UP = /\u001b\[(\d{0,2})[AF]/g;
const UNFINISHED = /\u001b(?:\[[0-?]*[ -/]*)?$/;
const MOVING = /[\r\u001b]/;
const ERASE = /\u001b\[[02]?K/g;
/** A move up by one line, and what erases a line, among text without escape sequences. */
const ONE_UP = "\u000b";
const ERASED = "\u000c";
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const NOT_FINITE = { NaN: "NaN", Infinity: "∞", "-Infinity": "−∞" };
const NUMBER_FORMAT = new Intl.NumberFormat("en-US");
const DATES_KEPT = 2000;
const dates = new Map();
/** The time below which a duration is given to the second. */
const TO_THE_SECOND_S = 600;
const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** Text as one line, without control, direction and terminal escape characters. */
export function clean(text) {
  return cleanLines(text).replace(/\s+/g, " ").trim();
}

/** The same for text of several lines, as a terminal shows them in the end: each progress bar is one line. */
export function cleanLines(text) {
  const given = String(text ?? "");
  if (!MOVING.test(given)) return given.replace(INVISIBLE, "");
  const moves = given
    .replace(UNFINISHED, "")
    .replace(HOME, "\r")
    .replace(ERASE, ERASED)
    .replace(UP, (_, lines) => ONE_UP.repeat(Math.max(1, Number(lines))))
    .replace(ESCAPES, "");
  return settled(moves).replace(INVISIBLE, "");
}

/** Text after all its moves: at the beginning of a line the next text replaces the one before. */
function settled(text) {
  const rows = [""];
  let row = 0;
  let isFresh = true;
  for (const part of text.split(/([\n\r\u000b\u000c])/)) {
    if (part === "\n") row += 1;
    if (part === "\n" || part === "\r") isFresh = true;
    else if (part === ONE_UP) row = Math.max(0, row - 1);
    else if (part === ERASED) rows[row] = isFresh ? "" : rows[row];
    else if (part) {
      rows[row] = isFresh ? part : rows[row] + part;
      isFresh = false;
    }
    if (row === rows.length) rows.push("");
  }
  return rows.join("\n");
}

/** `1 GPU`, `4 GPUs`. */
export function count(number, one, many = `${one}s`) {
  return `${amount(number)} ${number === 1 ? one : many}`;
}

/** Numbers of this size and above, and those below the other, are written in powers of ten. */
const LARGE = 1e6;
const SMALL = 0.001;
/** Significant digits of a number in powers of ten; a plain one has one more. */
const DIGITS = 3;
/** The most digits that distinguish numbers. */
const MOST_DIGITS = 15;
/** The ratio of sizes from which the marks of an axis are those of several orders of magnitude. */
const ORDERS_APART = 1e4;

/** A number with separated thousands and without needless digits. */
export function amount(number) {
  if (number === null || number === undefined) return "–";
  if (!Number.isFinite(number)) return NOT_FINITE[number] ?? "–";
  if (Number.isInteger(number) && Math.abs(number) < 1e15) return plain(number);
  return isMiddling(Math.abs(number)) ? plain(number) : inPowersOfTen(number);
}

const CENT = 0.01;

/** A cost or a budget rounded to two decimals, halves up: `1,200`, `12.50`; a smaller one than that shows, and not 0, `< 0.01`. */
export function money(number) {
  const rounded = Math.abs(number) < CENT / 2 ? 0 : Number(`${Math.round(Number(`${number}e2`))}e-2`);
  if (number && !rounded) return `< ${CENT}`;
  const digits = Number.isInteger(rounded) ? 0 : 2;
  return rounded.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function plain(number, digits = DIGITS) {
  if (Number.isInteger(number)) return NUMBER_FORMAT.format(number === 0 ? 0 : number);
  return String(Number(number.toPrecision(digits + 1)));
}

/** `2.89e-7`, `1e9`. */
function inPowersOfTen(number, digits = DIGITS) {
  const [factor, power] = number.toExponential(digits - 1).split("e");
  return `${Number(factor)}e${Number(power)}`;
}

function isMiddling(size) {
  return size >= SMALL && size < LARGE;
}

/**
 * A function that writes the marks of one axis: briefly, with enough digits that they differ, and all in one way unless
 * they are of several orders of magnitude.
 */
export function markWords(marks) {
  const sizes = marks.map(Math.abs).filter((size) => size > 0);
  const largest = Math.max(...sizes);
  const isWide = largest / Math.min(...sizes) >= ORDERS_APART;
  const isPlain = (mark) => mark === 0 || isMiddling(isWide ? Math.abs(mark) : largest);
  const writes = Array.from(
    { length: MOST_DIGITS - DIGITS },
    (_, more) => (mark) => (isPlain(mark) ? plain(mark, DIGITS + more) : inPowersOfTen(mark, DIGITS + more)),
  );
  const different = new Set(marks).size;
  return writes.find((write) => new Set(marks.map(write)).size === different) ?? writes.at(-1);
}

/** Compares two texts for sorting, numbers within them by their size. */
export function naturally(one, other) {
  return String(one).localeCompare(String(other), undefined, { numeric: true });
}

/** The numbers of free GPUs by condition: `2 idle, 4 drained`; `none idle` if there are none. */
export function freeWords(counts = {}) {
  const words = Object.entries(counts).map(([what, number]) => `${amount(number)} ${what}`);
  return words.join(", ") || "none idle";
}

/** A number of bytes: `512 B`, `1.5 KiB`, `20.0 MiB`; `size` of `scheduler/wording.py` is the same for terminals. */
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  const place = units.findLastIndex((_, power) => bytes >= 1024 ** power);
  return place < 1 ? `${bytes} B` : `${(bytes / 1024 ** place).toFixed(1)} ${units[place]}`;
}

/** Memory in powers of two, as GPU tools report it: `512 MiB`, `79.6 GiB`. */
export function binarySize(bytes) {
  const [unit, length] = bytes >= 2 ** 30 || bytes === 0 ? ["GiB", 2 ** 30] : ["MiB", 2 ** 20];
  return `${Number((bytes / length).toPrecision(3))} ${unit}`;
}

/** The length of a time that is over or fixed: `40 s`, `1 min 44 s`, `12 min`, `2 h 5 min`. */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return whole < TO_THE_SECOND_S ? exactDuration(whole) : roughly(whole);
}

/** The length of a time from `started` to `ended`, else to `now`: one that passes is not given to the second. */
export function lasted(started, ended, now) {
  return ended ? duration(ended - started) : roughly(now - started);
}

/** A time that passes at this moment, or is estimated: `40 s`, `12 min`, `2 h 5 min`, `3 d 4 h`. */
export function roughly(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0 s";
  const [unit, size] = UNITS[first];
  const most = Math.floor(whole / size);
  const next = UNITS[first + 1];
  const rest = next && first < 2 ? Math.floor((whole - most * size) / next[1]) : 0;
  return rest ? `${most} ${unit} ${rest} ${next[0]}` : `${most} ${unit}`;
}

/** All of a number of whole seconds: `1 min 20 s`, `2 h`. */
export function exactDuration(seconds) {
  let rest = Math.max(0, Math.round(seconds));
  const parts = UNITS.flatMap(([unit, size]) => {
    const number = Math.floor(rest / size);
    rest -= number * size;
    return number ? [`${number} ${unit}`] : [];
  });
  return parts.join(" ") || "0 s";
}

/** `just now`, `3 min ago`, after a week the day, or `in 3 min` for the future. */
export function ago(at, now) {
  const passed = now - at;
  if (Math.abs(passed) < 5) return "just now";
  if (passed >= WEEK_S) return day(at);
  return passed > 0 ? `${roughly(passed)} ago` : `in ${roughly(-passed)}`;
}

/** How long the words of `ago` stay true enough while nothing happens, in seconds. */
export function agoLasts(at, now) {
  return now - at < RECENT_S ? RECENT_LASTS_S : OLD_LASTS_S;
}

/** Text of others with a full stop, unless it ends with a mark. */
export function asSentence(text) {
  const said = clean(text);
  return /[.!?…]$/.test(said) ? said : `${said}.`;
}

/** The parts of a local time, `2026-11-27` and `21:14:05`, worked out once. */
function partsOf(at) {
  if (!dates.has(at)) {
    if (dates.size >= DATES_KEPT) dates.clear();
    const date = new Date(at * 1000);
    const digits = (number) => String(number).padStart(2, "0");
    const [first, ...others] = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
    const time = [date.getHours(), date.getMinutes(), date.getSeconds()];
    dates.set(at, [[first, ...others.map(digits)].join("-"), time.map(digits).join(":")]);
  }
  return dates.get(at);
}

/** The local day of a time: `2026-11-27`. */
export function day(at) {
  return partsOf(at)[0];
}

/** A local time with its day: `2026-11-27 21:14`. */
export function dated(at) {
  return exact(at).slice(0, -":00".length);
}

/** The same to the second: `2026-11-27 21:14:05`. */
export function exact(at) {
  return partsOf(at).join(" ");
}

/** The time of day, `21:14` or if `precise` `21:14:05`, with the day when it is not today. */
export function clock(at, now, precise = false) {
  const whole = precise ? exact(at) : dated(at);
  return day(at) === day(now) ? whole.slice(whole.indexOf(" ") + 1) : whole;
}

const WEEKDAY_FORMAT = new Intl.DateTimeFormat("en", { weekday: "long" });

/** The weekday of a time: `Friday`. */
export function weekday(at) {
  return WEEKDAY_FORMAT.format(new Date(at * 1000));
}

/** The same with its day: `Friday, 2026-11-27`. */
export function weekdayAndDay(at) {
  return `${weekday(at)}, ${day(at)}`;
}

/** The time zone in which people of this browser write times, such as `Europe/Berlin`; empty if it has no name. */
export function timeZone() {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
}

/** A time as programs read it: `2026-11-27T20:14:05Z`. */
export function iso(at) {
  return new Date(at * 1000).toISOString().replace(/\.\d+/, "");
}

/** A time as a field for times has it, local and to the minute: `2026-11-27T21:14`; empty for null. */
export function fieldTime(at) {
  return at === null || at === undefined ? "" : dated(at).replace(" ", "T");
}

/** The time in a field for times or for days, of which it is the beginning; null for an empty field. */
export function typedTime(text) {
  return text ? new Date(text.includes("T") ? text : `${text}T00:00`).getTime() / 1000 : null;
}

/** The beginning of the local day of a time, or of the one that comes `days` later. */
export function startOfDay(at, days = 0) {
  const date = new Date(at * 1000);
  date.setHours(0, 0, 0, 0);
  date.setDate(date.getDate() + days);
  return date.getTime() / 1000;
}

/** `a`, `a and b`, `a, b and c`, `a, b, c and 4 more`. */
export function listed(items, most = 3) {
  const some = items.length > most + 1 ? [...items.slice(0, most), `${amount(items.length - most)} more`] : items;
  return some.length > 1 ? `${some.slice(0, -1).join(", ")} and ${some.at(-1)}` : (some[0] ?? "");
}

/** The most characters of a headline: `LONGEST_HEADLINE` of `scheduler/sentences/headlines.py`. */
export const LONGEST_HEADLINE = 90;

/** A text that ends in … if it has more than `most` characters. */
export function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text;
}

/** User input for a message: in quotes, on one line, at most 80 characters. */
export function given(text) {
  return `“${shortened(clean(text), 80)}”`;
}

/** Lines for a screen reader: each ends as a sentence does. */
export function aloud(lines) {
  return lines.map((line) => (/[.!?]$/.test(line) ? line : `${line}.`)).join(" ");
}

/** Seconds since the epoch, now. */
export function clockNow() {
  return Date.now() / 1000;
}
