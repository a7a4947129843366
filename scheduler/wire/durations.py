"""Durations as people write them. The only parser of durations: every surface that takes one calls `seconds`."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from numbers import Real
from typing import Final

from springtide.scheduler.wording import given

_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
PATTERN: Final = (
    rf"^(?=[0-9])(?:({_NUMBER})|(?:({_NUMBER}) *d)? *(?:({_NUMBER}) *h)? *(?:({_NUMBER}) *m(?:in)?)? *"
    rf"(?:({_NUMBER}) *s)?)(?!\n)$"
)
"""Regular expression of a duration in text: a number of seconds, or numbers with the units d, h, m (min) and s."""
EXAMPLES: Final = "90 (seconds), 10m, 2h, 1h30m or 1d"
MAX_LENGTH: Final = 64
"""Maximum number of characters of a duration in text."""

_UNITS: Final = (1, 86_400, 3600, 60, 1)
"""Seconds of the units, in the order of the groups of `PATTERN`."""


def seconds(value: object) -> float:
    """Return a duration in seconds.

    Accept a number of seconds, a `timedelta`, and text such as ``90``, ``10m``, ``2h`` or ``1h30m``. Raise
    `ValueError` for anything else, and for numbers that are not finite.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _parsed(value)
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        msg = f"{given(value)} is not a duration such as {EXAMPLES}"
        raise ValueError(msg)
    return float(value)


def shown(duration: float) -> str:
    """Return a duration in seconds as text that `seconds` accepts, in the largest unit that divides it."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if duration and duration % length == 0:
            return f"{duration / length:.0f}{unit}"
    return f"{duration:.15g}s"


def _parsed(text: str) -> float:
    found = re.match(PATTERN, text.strip()) if len(text) <= MAX_LENGTH else None
    if found is None:
        msg = f"{given(text)} is not a duration such as {EXAMPLES}"
        raise ValueError(msg)
    return sum(float(number) * unit for number, unit in zip(found.groups(), _UNITS, strict=True) if number)
