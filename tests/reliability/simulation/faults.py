"""Faults of a simulated executor and store, and the points at which a service may crash."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from simulation.virtual_time import CrashedError

from springtide.scheduler.executors.base import ExecutorError


class CrashPoints:
    """Counts what a service does to the world outside it, and lets it crash before or after one of these.

    ``kind`` is "write" or "action", ``number`` counts from 1; 0 never crashes.
    """

    def __init__(self, kind: str = "write", number: int = 0, *, after: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self._fatal = (kind, number, after)
        self.crash: Callable[[], None] = lambda: None

    def count(self, kind: str) -> int:
        """Count one more of a kind and return its number."""
        self.counts[kind] += 1
        return self.counts[kind]

    def reach(self, kind: str, number: int, *, after: bool) -> None:
        """Raise `CrashedError` here if this is the point."""
        if (kind, number, after) == self._fatal:
            self.crash()
            raise CrashedError


@dataclass(slots=True)
class Faults:
    """How often what goes wrong, as parts of 1, and how long answers take at most, in seconds.

    ``lost_requests`` never reach the executor, ``lost_answers`` do; both are reported as errors. ``repeated``
    requests and observations arrive twice.
    """

    rng: random.Random = field(default_factory=lambda: random.Random(0))
    slow: float = 0.0
    delay: float = 0.0
    lost_requests: float = 0.0
    lost_answers: float = 0.0
    repeated: float = 0.0

    def latency(self) -> float:
        """Return a delay, usually none."""
        return self.rng.random() * self.delay if self.slow and self.rng.random() < self.slow else 0.0

    def lose_request(self) -> None:
        """Raise `ExecutorError` for a request that gets lost."""
        if self.lost_requests and self.rng.random() < self.lost_requests:
            raise ExecutorError("The request did not reach the machine.")

    def lose_answer(self) -> None:
        """Raise `ExecutorError` for a request whose answer gets lost."""
        if self.lost_answers and self.rng.random() < self.lost_answers:
            raise ExecutorError("The machine did not answer.")

    def repeat(self) -> bool:
        """Return whether something arrives twice."""
        return bool(self.repeated) and self.rng.random() < self.repeated

    def end(self) -> None:
        """Let everything work from now on."""
        self.slow = self.lost_requests = self.lost_answers = self.repeated = 0.0
