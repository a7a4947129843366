"""Times that come again on days of the week, in a time zone, whatever its clock does twice a year; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from springtide.scheduler.model import Span
from springtide.scheduler.wording import given

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})")


class Repeat(NamedTuple):
    """A time of days of the week: from ``opens``, such as ``20:00``, to ``closes``, which is on the next day if it
    is not later. ``days`` are numbers from Monday, 0, on; ``zone`` is the name of a time zone.
    """

    days: tuple[int, ...]
    opens: str
    closes: str
    zone: str


class NoRepeatError(ValueError):
    """Words that are no repeated time; ``part`` is the field of `Repeat` that is wrong."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


def repeat(days: str, opens: str, closes: str, zone: str) -> Repeat:
    """Return a repeated time from words: days such as ``sat,sun``, ``mon-fri`` or ``daily``, and times of day.

    Raises `NoRepeatError` for anything else, and for a time zone that this machine does not know.
    """
    for part, at in (("opens", opens), ("closes", closes)):
        try:
            _clock(at)
        except ValueError as error:
            raise NoRepeatError(part, str(error)) from None
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise NoRepeatError("zone", f"{given(zone)} is no time zone such as Europe/Berlin") from None
    return Repeat(tuple(sorted(set(_days(days)))), opens, closes, zone)


def _days(text: str) -> Iterator[int]:
    for part in "".join(text.lower().split()).split(","):
        first, dash, last = part.partition("-")
        names = [name[:3] for name in (first, last) if name]
        if part in {"daily", "day"}:
            yield from range(7)
        elif len(names) != 1 + bool(dash) or not all(name in DAYS for name in names):
            raise NoRepeatError("days", f"{given(text)} are no days such as sat,sun, mon-fri or daily")
        else:
            start, end = DAYS.index(names[0]), DAYS.index(names[-1])
            yield from (day % 7 for day in range(start, end + 1 if end >= start else end + 8))


def _clock(text: str) -> time:
    found = _CLOCK.fullmatch(text)
    if found is None or int(found[1]) > 23 or int(found[2]) > 59:
        raise ValueError(f"{given(text)} is no time of day such as 20:00")
    return time(int(found[1]), int(found[2]))


def next_span(times: Repeat, now: float) -> Span:
    """Return the time that holds now, or else the next one, in seconds since the epoch."""
    return next(spans(times, now))


def spans(times: Repeat, now: float) -> Iterator[Span]:
    """Yield the times that hold now or come later, without end.

    A time of day that the clock skips in spring is that much later; of one that comes twice in autumn it is the
    first.
    """
    zone, opens, closes = ZoneInfo(times.zone), _clock(times.opens), _clock(times.closes)
    day = datetime.fromtimestamp(now, UTC).astimezone(zone).date() - timedelta(days=1)
    while True:
        if day.weekday() in times.days:
            later = day if closes > opens else day + timedelta(days=1)
            span = Span(_at(day, opens, zone), _at(later, closes, zone))
            if now < span.end and span.start < span.end:
                yield span
        day += timedelta(days=1)


def _at(day: date, clock: time, zone: ZoneInfo) -> float:
    return datetime.combine(day, clock, zone).timestamp()


def in_words(times: Repeat) -> str:
    """Return ``sat and sun from 20:00 to 08:00, Europe/Berlin``."""
    names = [DAYS[day].capitalize() for day in times.days]
    days = "daily" if len(names) == 7 else ", ".join(names)
    return f"{days} from {times.opens} to {times.closes}, {times.zone}"
