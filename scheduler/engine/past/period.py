"""The period of a past, and its moments as times of a scenario."""

from __future__ import annotations

from dataclasses import dataclass

DIGITS = 3
"""Digits of a second that a scenario keeps."""


@dataclass(frozen=True, slots=True)
class Period:
    """The time from ``start`` to ``end``, in seconds since the epoch; ``origin`` is the scenario's time 0."""

    start: float
    end: float
    origin: float

    def time(self, at: float) -> float:
        """Return a moment as a time of the scenario."""
        return round(max(0.0, at - self.origin), DIGITS)
