"""Times as people write them: ``friday 18:00``, ``2026-12-01``, ``18:00``, or a duration from now on."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Final

from springtide.scheduler.wire import durations
from springtide.scheduler.wording import given

EXAMPLES: Final = "friday 18:00, 2026-12-01, 18:00, or 2d for two days from now"
MAX_LENGTH: Final = 64
"""Maximum number of characters of a time in text."""

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_RELATIVE: Final = {"today": 0, "tomorrow": 1}
_TIME: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})"
_PATTERN: Final = re.compile(
    rf"(?:(?P<day>[a-z]+)(?:\s+{_TIME})?|{_TIME.replace('hour', 'h').replace('minute', 'm')})"
)
MIDNIGHT: Final = time()
ONE_DAY: Final = timedelta(days=1)


def moment(text: str, now: datetime) -> float:
    """Return a time in seconds since the epoch.

    Local times are in the zone of ``now``, the system's if it has none. A day without a time means its beginning,
    a weekday or a time of day the next one after ``now``; the word ``now`` is that time. Raises `ValueError` for
    anything else.
    """
    return _read(text, now, last=False)


def last_moment(text: str, now: datetime) -> float:
    """Return the end of a span as `moment` does, where a day without a time means its end.

    A weekday is then the next one that is not over, maybe today. Raises `ValueError`.
    """
    return _read(text, now, last=True)


def _read(text: str, now: datetime, *, last: bool) -> float:
    words = " ".join(text.lower().split())
    if not words or len(text) > MAX_LENGTH:
        raise _no_time(text)
    if words == "now":
        return now.timestamp()
    found = _PATTERN.fullmatch(words)
    if found is not None:
        return _in_words(found, now, text, last=last).timestamp()
    if not words.isdigit():
        with suppress(ValueError):
            return now.timestamp() + durations.seconds(words)
    if last:
        with suppress(ValueError, OverflowError):
            return _local(datetime.combine(date.fromisoformat(text.strip()) + ONE_DAY, MIDNIGHT), now).timestamp()
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _no_time(text) from None
    return (at if at.tzinfo is not None else _local(at, now)).timestamp()


def _in_words(found: re.Match[str], now: datetime, text: str, *, last: bool) -> datetime:
    day, hour, minute = found["day"], found["hour"] or found["h"], found["minute"] or found["m"]
    try:
        clock = MIDNIGHT if hour is None else time(int(hour), int(minute))
    except ValueError:
        raise _no_time(text) from None
    to_its_end = int(last and hour is None)
    if day in _RELATIVE:
        return _on(now, _RELATIVE[day] + to_its_end, clock)
    if day is None:
        today = _on(now, 0, clock)
        return today if today > now else _on(now, 1, clock)
    weekday = next((at for at, name in enumerate(_DAYS) if len(day) >= 3 and name.startswith(day)), None)
    if weekday is None:
        raise _no_time(text)
    ahead = (weekday - now.weekday()) % 7
    first = _on(now, ahead + to_its_end, clock)
    return first if first > now else _on(now, ahead + 7, clock)


def _on(now: datetime, days: int, clock: time) -> datetime:
    return _local(datetime.combine(now.date() + timedelta(days=days), clock), now)


def _local(at: datetime, now: datetime) -> datetime:
    """Return a local time in the zone of ``now``."""
    return at.replace(tzinfo=now.tzinfo)


def _no_time(text: str) -> ValueError:
    return ValueError(f"{given(text, MAX_LENGTH)} is not a time such as {EXAMPLES}")
