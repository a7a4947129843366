"""Rests between ticks, in which the event loop answers and the input of the next tick arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Self

REST_FACTOR: Final = 4.0
"""Rest after a tick, as a multiple of its work: ticks take at most a fifth of the event loop's time."""
MAX_REST: Final = 0.05
"""Maximum rest, in seconds."""


class Pace:
    """Measures the work of ticks as a context manager; ``clock`` is the event loop's.

    A tick has a cost of its own, whatever it decides: many small ones cost more than a few that decide as much.
    After a time without ticks the next one does not wait.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = 0.0
        self._worked = 0.0
        self._ended = clock()

    def __enter__(self) -> Self:
        self._began = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = self._clock()
        self._worked += self._ended - self._began

    def rest(self) -> float:
        """Return the seconds until the next tick may begin, which counts its own work."""
        until = self._ended + min(MAX_REST, REST_FACTOR * self._worked)
        self._worked = 0.0
        return max(0.0, until - self._clock())
