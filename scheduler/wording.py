"""Plurals, articles, quotes, lists, numbers and times as all sentences of the project write them.

Standard library only. ``widgets/visuals/base/words.js`` has the same functions for pages; the cases that both are
tested with are in ``tests/scheduler/times.json``.

Points in time are those of the reader's time zone, as follows.

==================================  ==============================  ==========================
where                               today                           another day or year
==================================  ==============================  ==========================
lists, and what has happened        ``3 min ago`` (`ago`)           the same; the date (`day`) after a week
times of the day                    ``21:14`` (`clock`)             ``2026-11-27 21:14``
the same to the second, on hover    ``21:14:05``, ``2026-11-27 21:14:05`` (`exact`)
sentences of the service            ``2026-11-27 21:14 UTC`` (`utc`): it does not know the reader's day
commands                            ``2026-11-27 21:14+01:00`` (`with_offset`): their output is read elsewhere
CSV, JSON, tools of assistants      ``2026-11-27T20:14:05Z`` (`iso`), or seconds since the epoch
==================================  ==============================  ==========================

Durations are those of `duration` if they are over or fixed, of `roughly` if they pass now or are estimated, and of
`exactly` if they are settings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Decimal

LISTED = 3
"""Maximum number of names that a list spells out."""

SMALLEST_SHOWN = 0.001
CENT = Decimal("0.01")
"""The least number that a sum read at a glance is not less than."""

GIVEN = 80
"""Maximum number of characters of an input that a message repeats."""

LONG_GIVEN = 1000
"""The same for paths, addresses and images, which differ in their last characters."""

SOON = 10.0
"""Time below which a start is "any moment", in seconds."""

UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories of control, direction and line characters, which names must not contain."""

JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"

TO_THE_SECOND = 10
"""Number of minutes below which a duration is given to the second."""

WEEK = 7 * 86_400
"""Time after which what has happened is given by its day, in seconds."""

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

_PLAIN_NAME = re.compile(r"[\w@%+=/#-](?:[\w@%+=:/.#-]*[\w@%+=/#-])?")
_VOWEL_SOUND = re.compile(r"(?:8|11(?!\d)|18(?!\d))\d*|(?!uni|use|uuid|utf|url|one\b|eu)[aeiou]", re.IGNORECASE)
_END = (".", "!", "?", "…", ".”", "!”", "?”")


def amount(number: float) -> str:
    """Return a number with thousands set apart and without needless digits: ``1,200``, ``0.25``."""
    is_whole = isinstance(number, int) or number.is_integer()
    return f"{int(number):,d}" if is_whole and abs(number) < 10**15 else f"{number + 0.0:,.4g}"


def at_a_glance(number: float) -> str:
    """Return a sum as a whole number, below 10 with two significant digits and at most three decimals.

    A number below the least of these, and not 0, is ``< 0.001``.
    """
    size = abs(number)
    if 0 < size < SMALLEST_SHOWN:
        return f"< {SMALLEST_SHOWN:g}"
    return amount(round(float(f"{number:.2g}"), 3) if size < 10 else round(number))


def money(number: float) -> str:
    """Return a cost or a budget rounded to two decimals, halves up: ``1,200``, ``12.50``.

    One that is smaller than half of the last, and not 0, is ``< 0.01``.
    """
    rounded = Decimal(str(float(number))).quantize(CENT, ROUND_HALF_UP)
    if number and not rounded:
        return f"< {CENT}"
    return f"{int(rounded):,d}" if rounded == int(rounded) else f"{rounded:,f}"


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 GPU``, ``4 GPUs``. ``many`` is a plural that is not ``one`` and an s."""
    return f"{amount(number)} {plural(number, one, many)}"


def plural(number: int, one: str, many: str = "") -> str:
    """Return the form of a word for a number: ``plural(2, "is", "are")``."""
    return one if number == 1 else many or f"{one}s"


def gpus(number: int) -> str:
    """Return ``1 GPU``, ``4 GPUs``."""
    return count(number, "GPU")


def trials_failed(failed: int, number: int) -> str:
    """Return how many trials of a sweep failed: ``2 of 12 trials failed``."""
    return f"{amount(failed)} of {count(number, 'trial')} failed"


def free(counts: Mapping[str, int]) -> str:
    """Return the numbers of unused GPUs by state: ``2 idle, 4 drained``; without any ``none idle``."""
    return ", ".join(f"{amount(number)} {what}" for what, number in counts.items()) or "none idle"


def workers(number: int, each: int) -> str:
    """Return ``2 workers with 4 GPUs each``."""
    return f"{count(number, 'worker')} with {gpus(each)} each"


def article(noun: str) -> str:
    """Return the noun with its indefinite article: ``a job``, ``an 8-GPU job``, ``an int``."""
    return f"{'an' if _VOWEL_SOUND.match(noun) else 'a'} {noun}"


def ordinal_place(place: int) -> str:
    """Return ``Next in line`` or ``Number 3 in line``."""
    return "Next in line" if place == 1 else f"Number {amount(place)} in line"


def is_printable(text: str) -> bool:
    """Return whether a text has no control, direction or line characters.

    Persian, Hindi and emoji need joiners between their signs. Between Latin letters one only hides.
    """
    return all(
        unicodedata.category(character) not in UNPRINTABLE or _joins(text, place)
        for place, character in enumerate(text)
    )


def _joins(text: str, place: int) -> bool:
    """Return whether the character at a place is a joiner between two that are beyond ASCII."""
    beside = text[max(0, place - 1) : place] + text[place + 1 : place + 2]
    return text[place] in JOINERS and len(beside) == 2 and not any(map(str.isascii, beside))


def capital(words: str) -> str:
    """Return words that begin a sentence."""
    return words[:1].upper() + words[1:]


def quoted(name: str) -> str:
    """Return the name of a job, a project or a person in quotes, on one line: it may read as any words."""
    return f"“{' '.join(name.split())}”"


def labelled(name: str) -> str:
    """Return the name of a node, a rack, a host or a GPU type: in quotes, unless it is one plain word."""
    words = " ".join(name.split())
    return words if _PLAIN_NAME.fullmatch(words) else quoted(words)


def given(value: object, most: int = GIVEN) -> str:
    r"""Return an input as a message repeats it: a text in quotes, anything else as Python writes it.

    Unprintable characters are escaped as Python does (``\n``, ``\u202e``); texts longer than ``most`` end in
    ``…``.
    """
    text = value if isinstance(value, str) else as_python(value)
    shown = "".join(map(_escaped, text[:most])) + ("…" if len(text) > most else "")
    return f"“{shown}”" if isinstance(value, str) else shown


def as_python(value: object) -> str:
    """Return a value as Python writes it, and the type of a number that is too long to be written."""
    try:
        return repr(value)
    except ValueError:  # more digits than `sys.get_int_max_str_digits()`
        return f"<{type(value).__name__}>"


def whole_characters(text: str) -> str:
    r"""Return a text with halves of characters, which no encoding has, escaped as Python does (``\udc80``)."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def listed(items: Sequence[str], most: int = LISTED) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``, ``a, b, c and 4 more``; ``most`` are spelled out."""
    some = list(items)
    if len(some) > most + 1:
        some = [*some[:most], f"{amount(len(some) - most)} more"]
    return " and ".join([", ".join(some[:-1]), some[-1]]) if len(some) > 1 else "".join(some)


def sentence(text: str) -> str:
    """Return foreign text as a sentence of its own: on one line, with a full stop. Empty for an empty text."""
    words = " ".join(text.split())
    return words if not words or words.endswith(_END) else f"{words}."


def duration(seconds: float) -> str:
    """Return the length of a time that is over or fixed: ``40 s``, ``1 min 44 s``, ``12 min``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if rest and 0 < minutes < TO_THE_SECOND else roughly(whole)


def roughly(seconds: float) -> str:
    """Return a time that passes now, or is estimated: ``40 s``, ``12 min``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = max(0, round(seconds))
    for place, (unit, length) in enumerate(UNITS):
        if whole >= length:
            most, rest = divmod(whole, length)
            below = UNITS[place + 1] if place < 2 else None
            more = f" {rest // below[1]} {below[0]}" if below and rest >= below[1] else ""
            return f"{most} {unit}{more}"
    return "0 s"


def moment(likely: float, first: float, last: float | None) -> str:
    """Return ``in about 12 min (between 5 and 40 min)`` or ``any moment``; all times are seconds from now.

    ``last`` is None if nothing bounds it.
    """
    words = "any moment" if likely < SOON else f"in about {roughly(likely)}"
    if last is None:
        early = "now at the earliest" if first < SOON else f"in {roughly(first)} at the earliest"
        return words if likely < SOON else f"{words} ({early})"
    return f"{words}{_range(first, last)}"


def _range(first: float, last: float) -> str:
    early, late = roughly(first), roughly(last)
    if last < SOON or early == late:
        return ""
    if first < SOON:
        return f" (within {late})"
    number, _, unit = early.partition(" ")
    alike = unit == late.partition(" ")[2]
    return f" (between {number if alike else early} and {late})"


def exactly(seconds: float) -> str:
    """Return a duration that is not rounded: ``2 min 30 s``, ``1 h``, ``0.5 s``."""
    rest, parts = seconds, []
    for unit, length in UNITS[:-1]:
        if rest >= length:
            parts.append(f"{int(rest // length)} {unit}")
            rest %= length
    if rest or not parts:
        parts.append(f"{rest:g} s")
    return " ".join(parts)


def cores(number: float) -> str:
    """Return ``1 core``, ``0.5 cores``, ``16 cores``."""
    return f"{amount(round(number, 3))} {'core' if number == 1 else 'cores'}"


def cores_and_memory(cpus: float, memory: float) -> str:
    """Return ``16 cores and 64 GiB of memory``, without a part that is 0."""
    parts = [cores(cpus)] if cpus else []
    return listed([*parts, memory_size(memory)] if memory else parts)


def memory_size(number: float) -> str:
    """Return a number of bytes as ``64 GiB of memory``."""
    return f"{size(round(number)).replace('.0 ', ' ')} of memory"


def size(number: int) -> str:
    """Return a number of bytes as ``512 B``, ``1.5 KiB``, ``20.0 MiB`` or ``3.1 GiB``."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} B"


def ago(moment: float, now: float) -> str:
    """Return ``just now``, ``2 h 5 min ago``, after a week the date. Times are in seconds since 1970."""
    passed = max(0.0, now - moment)
    if passed < 5:
        return "just now"
    return f"{roughly(passed)} ago" if passed < WEEK else day(moment)


def day(at: float, zone: tzinfo | None = None) -> str:
    """Return the day of a time in seconds since 1970, ``2026-11-27``; without a zone in that of this machine."""
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d}"


def dated(at: float, zone: tzinfo | None = None) -> str:
    """Return a time with its day: ``2026-11-27 21:14``."""
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M}"


def exact(at: float, zone: tzinfo | None = None) -> str:
    """Return a time with its day, to the second: ``2026-11-27 21:14:05``."""
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M:%S}"


def is_short(start: float, end: float) -> bool:
    """Return whether two times are so near to each other that only their seconds differ."""
    return abs(end - start) < 60


def utc(at: float, *, precise: bool = False) -> str:
    """Return a time with its day in UTC: ``2026-11-27 20:14 UTC``, or ``precise`` with its seconds."""
    return f"{exact(at, UTC) if precise else dated(at, UTC)} UTC"


def iso(at: float | None) -> str:
    """Return a time as programs read it, in UTC and to the second: ``2026-11-27T20:14:05Z``. Empty for None."""
    return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def with_offset(at: float, zone: tzinfo | None = None, *, precise: bool = False) -> str:
    """Return a time with its day and the offset from UTC: ``2026-11-27 21:14+01:00``, ``precise`` with seconds."""
    return datetime.fromtimestamp(at).astimezone(zone).isoformat(" ", "seconds" if precise else "minutes")


def weekday(at: float, zone: tzinfo | None = None) -> str:
    """Return the weekday of a time: ``Friday``."""
    return f"{datetime.fromtimestamp(at, zone):%A}"


def end_of_day(at: float, zone: tzinfo | None = None) -> str | None:
    """Return the day that ends at this time: ``the end of Friday, 2026-11-27``; None within a day."""
    here = datetime.fromtimestamp(at, zone)
    return f"the end of {here - timedelta(days=1):%A, %Y-%m-%d}" if here.time() == time() else None


def month(name: str) -> str:
    """Return a month such as ``2026-11`` as a title has it: ``November 2026``."""
    return f"{date.fromisoformat(f'{name}-01'):%B %Y}"


def clock(at: float, now: float, *, precise: bool = False) -> str:
    """Return the local time of day, ``21:14`` or ``precise`` ``21:14:05``, with the day unless it is today's."""
    whole = exact(at) if precise else dated(at)
    return whole.partition(" ")[2] if day(at) == day(now) else whole
