"""The time from the request to stop until an attempt has left its GPUs, estimated from earlier pauses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf
from statistics import median
from typing import Final

from springtide.scheduler.forecast import AT_ONCE, Stopping, StopTime
from springtide.scheduler.history.run_times import RunTimes, kinds
from springtide.scheduler.store.records import Asked, AttemptState, JobRecord

ALIKE: Final = 2
"""Number of kinds of a job, the most specific ones, whose pauses are like its own."""
OVERDUE_AFTER: Final = 10.0
"""Time beyond the longest stop after which nothing is known of its end, in seconds."""


class StopTimes:
    """The times that pauses take. ``grace`` is the pool's grace period, in seconds."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._pauses = RunTimes()

    def learn(self, job: JobRecord) -> None:
        """Add the pauses of an ended job."""
        for took in _pauses(job):
            self._pauses.learn(job.spec, took)

    def of(self, job: JobRecord) -> StopTime:
        """Return how long a pause of a job takes: as its own, as those of jobs like it, else its grace period."""
        grace = job.spec.options.grace_in(self._grace)
        known = sorted(_pauses(job)) or self._pauses.of_kinds(islice(kinds(job.spec), ALIKE))
        return StopTime(known[0], median(known), max(grace, known[-1])) if known else StopTime(0.0, grace, grace)

    def stopping(self, jobs: Iterable[JobRecord], now: float) -> Iterator[Stopping]:
        """Iterate over the attempts of jobs that were asked to stop, and how long they take from ``now`` on."""
        for job in jobs:
            live = job.live
            if live is not None and live.asked is not None and live.asked_at is not None:
                at_once = live.asked is Asked.KILL_NOW
                time = AT_ONCE if at_once else _left(self.of(job), now - live.asked_at)
                yield Stopping(job.id, live.placement, time)


def _pauses(job: JobRecord) -> list[float]:
    """Return how long the pauses of a job took that the pool or a person had asked for, in seconds."""
    return [
        max(0.0, each.ended - each.asked_at)
        for each in job.attempts
        if each.state is AttemptState.PAUSED
        and each.asked_at is not None
        and each.ended is not None
        and each.started is not None
    ]


def _left(whole: StopTime, passed: float) -> StopTime:
    """Return the rest of a stop; beyond its likely time it may take the longest, and when overdue any time."""
    if passed > whole.longest + OVERDUE_AFTER:
        return StopTime(0.0, inf, inf)
    likely = whole.likely if passed < whole.likely else whole.longest
    return StopTime(*(max(0.0, each - passed) for each in (whole.shortest, likely, whole.longest)))
