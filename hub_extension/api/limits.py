"""How often a person may submit: a bucket of tokens each, in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

TRACKED: Final = 10_000
"""So many people are remembered before those with a full bucket are forgotten."""


class Buckets:
    """A bucket for each name: ``rate`` tokens a second drip in, up to ``burst``."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take a token. 0 if there was one, else the seconds until there will be."""
        now = self._clock()
        level = self._level(name, now)
        if level < 1:
            return (1 - level) / self._rate
        if len(self._levels) >= TRACKED and name not in self._levels:
            self._levels = {
                known: kept for known, kept in self._levels.items() if self._level(known, now) < self._burst
            }
        self._levels[name] = (level - 1, now)
        return 0.0

    def _level(self, name: str, now: float) -> float:
        level, at = self._levels.get(name, (self._burst, now))
        return min(self._burst, level + (now - at) * self._rate)
