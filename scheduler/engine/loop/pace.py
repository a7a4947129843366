"""Rests between ticks, in which the event loop answers and the input of the next tick arrives."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Rest:
    """The rest after a tick: ``factor`` times its work, at most ``longest`` seconds."""

    factor: float
    longest: float


URGENT: Final = Rest(4.0, 0.05)
"""Before a tick that a call waits for: such ticks take at most a fifth of the event loop's time."""
QUIET: Final = Rest(20.0, 0.4)
"""Before a tick that only takes in what the pool did as planned: a large fill reports thousands of starts."""
GROWTH: Final = 2.0
"""Growth of that rest with each such tick in a row, so that only in a large fill it is the longest one."""
MAX_GROWTH: Final = 64.0


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
        self._growth = 1.0

    def __enter__(self) -> Self:
        self._began = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = self._clock()
        self._worked += self._ended - self._began

    async def rest(self, urgent: asyncio.Event, until_due: Callable[[], float | None]) -> None:
        """Wait until the next tick may begin, which counts its own work.

        Without an ``urgent`` arrival that is later. ``until_due`` returns the seconds until a tick is due without
        any arrival, None if none is.
        """
        await asyncio.sleep(self._left(URGENT))
        quiet, rested = Rest(QUIET.factor * self._growth, QUIET.longest), False
        while not urgent.is_set():
            due = until_due()
            left = min(self._left(quiet), math.inf if due is None else due)
            if left <= 0:
                break
            rested = True
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await urgent.wait()
        rested = rested and not urgent.is_set()
        self._growth = min(MAX_GROWTH, GROWTH * self._growth) if rested else 1.0
        self._worked = 0.0

    def _left(self, rest: Rest) -> float:
        """Return the seconds that are left of a rest after the tick that was measured."""
        until = self._ended + min(rest.longest, rest.factor * self._worked)
        return max(0.0, until - self._clock())
