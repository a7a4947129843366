"""Delays between attempts at something that fails: exponential, capped and randomised; pure."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

Jitter: TypeAlias = Callable[[float], float]
"""Maps a delay to the one that is used, both in seconds."""


def equal_jitter(delay: float, draw: Callable[[], float] = random.random) -> float:
    """Return half of the delay plus a random part of the other half; ``draw`` gives numbers from 0 to 1.

    Clients that failed at the same moment do not all come back at the same moment.
    """
    return delay * (1 + draw()) / 2


def no_jitter(delay: float) -> float:
    """Return the delay unchanged, for tests and for a single client."""
    return delay


class Backoff:
    """Delays in seconds: ``base`` first, ``factor`` times the last one after that, at most ``cap``.

    ``jitter`` randomises each delay and does not change the ones after it. A backoff with a factor of 1 gives the
    same delay each time, randomised. Raises `ValueError` for a base that is not positive, a cap below the base, or
    a factor below 1.
    """

    __slots__ = ("_delay", "base", "cap", "factor", "jitter")

    def __init__(self, base: float, cap: float, *, factor: float = 2.0, jitter: Jitter = equal_jitter) -> None:
        if not 0 < base <= cap:
            raise ValueError(f"A backoff needs 0 < base <= cap, not base {base:g} and cap {cap:g}.")
        if factor < 1:
            raise ValueError(f"A backoff needs a factor of 1 or more, not {factor:g}.")
        self.base = base
        self.cap = cap
        self.factor = factor
        self.jitter = jitter
        self._delay = base

    def next_delay(self, *, at_least: float = 0.0) -> float:
        """Return the seconds to wait before the next attempt, and lengthen the delay after it.

        ``at_least`` is the delay requested by the server (a ``Retry-After`` header); it counts up to the cap.
        """
        delay, self._delay = self._delay, min(self.cap, self._delay * self.factor)
        return max(self.jitter(delay), min(at_least, self.cap))

    def reset(self) -> None:
        """Start again with ``base``, after a success."""
        self._delay = self.base
