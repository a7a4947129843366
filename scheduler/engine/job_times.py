"""Distributions of waits, run times and lost work of jobs since the engine was opened."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from springtide.scheduler.engine.state.ledger import lost_work
from springtide.scheduler.store.records import AttemptState, JobRecord

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
BOUNDS = (1.0, 10.0, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY)
"""Upper bounds of the classes of seconds."""


@dataclass(slots=True)
class Distribution:
    """How many values are in each class of `BOUNDS`, with one more for greater values, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.counts[bisect_left(BOUNDS, value)] += 1
        self.total += value


@dataclass(slots=True)
class JobTimes:
    """Distributions by project: of ``waits`` until the first start, ``runs`` of attempts, and ``lost`` work.

    Waits and runs are in seconds. Lost are the GPU-seconds of paused attempts after their last known checkpoint.
    """

    waits: dict[str, Distribution] = field(default_factory=dict)
    runs: dict[str, Distribution] = field(default_factory=dict)
    lost: dict[str, Distribution] = field(default_factory=dict)

    def follow(self, before: JobRecord | None, after: JobRecord) -> None:
        """Add the first start and the end of an attempt between two records of a job; sweeps have neither."""
        project, first = after.spec.project, after.standing.started
        if first is not None and (before is None or before.standing.started is None):
            self.waits.setdefault(project, Distribution()).add(max(0.0, first - after.spec.submitted))
        live = None if before is None else before.live
        if live is None or (after.live is not None and after.live.number == live.number):
            return
        ended = next(each for each in after.attempts if each.number == live.number)
        if ended.started is not None and ended.ended is not None:
            self.runs.setdefault(project, Distribution()).add(max(0.0, ended.ended - ended.started))
        if ended.state is AttemptState.PAUSED:
            self.lost.setdefault(project, Distribution()).add(lost_work(ended))


def cumulative(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the classes as Prometheus has them: the upper bound as text, and how many values are not greater."""
    total, found = 0, []
    for bound, number in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
        total += number
        found.append((bound, float(total)))
    return found
