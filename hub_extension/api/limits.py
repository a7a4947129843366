"""Limits of rate and concurrency for each person, counted in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

TRACKED: Final = 10_000
"""Number of stored buckets at which full buckets are removed before another is added."""


class Buckets:
    """Token bucket for each name: ``rate`` tokens are added per second, up to ``burst``."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, name: str, number: float = 1) -> float:
        """Take ``number`` tokens, at most a burst, and return 0.

        If fewer are available, take none and return the time until they are, in seconds.
        """
        now = self._clock()
        level = self._level(name, now)
        if level < number:
            return (number - level) / self._rate
        if len(self._levels) >= TRACKED and name not in self._levels:
            self._levels = {
                known: kept for known, kept in self._levels.items() if self._level(known, now) < self._burst
            }
        self._levels[name] = (level - number, now)
        return 0.0

    def _level(self, name: str, now: float) -> float:
        level, at = self._levels.get(name, (self._burst, now))
        return min(self._burst, level + (now - at) * self._rate)


class Slots:
    """Slots for operations that last a while: at most ``most`` at a time for each name."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: Counter[str] = Counter()

    @contextmanager
    def hold(self, name: str, refusal: Callable[[], Exception]) -> Iterator[None]:
        """Hold one of the name's slots in this context. Raises the result of ``refusal`` if all are taken."""
        if self._held[name] >= self.most:
            raise refusal()
        self._held[name] += 1
        try:
            yield
        finally:
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]
