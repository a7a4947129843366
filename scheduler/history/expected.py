"""The expected run time of unfinished jobs: one for all that are alike, renewed as jobs like them end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from springtide.scheduler.history.run_times import RunTimes
from springtide.scheduler.history.similar import Described, Kind, kinds

NOTABLE_RATIO = 1.25
"""Ratio between the usual and the expected run time from which on the expected one is renewed.

Jobs are ordered in doubling steps, so that smaller differences would change many jobs and no order.
"""


class Renewal(NamedTuple):
    """Jobs that are alike, by id, and how long they are expected to run from now on, in seconds."""

    jobs: tuple[str, ...]
    seconds: float


@dataclass(slots=True)
class _Alike:
    """Unfinished jobs of one most specific kind; ``source`` is the place in ``kinds`` of the known one."""

    kinds: tuple[Kind, ...]
    seconds: float | None
    source: int
    jobs: dict[str, None] = field(default_factory=dict)


class ExpectedRunTimes:
    """The expected run times of unfinished jobs, by what jobs like them took.

    Jobs of one most specific kind expect the same, so that none of them goes before another that was sent earlier.
    """

    def __init__(self, run_times: RunTimes) -> None:
        self._run_times = run_times
        self._alike: dict[Kind, _Alike] = {}
        self._below: defaultdict[Kind, dict[Kind, None]] = defaultdict(dict)
        self._due: dict[Kind, None] = {}

    def of(self, job: Described) -> float | None:
        """Return how long a job is expected to run, in seconds; None if nothing is known."""
        alike = self._alike.get(next(kinds(job)))
        return self._run_times.usual(job) if alike is None else alike.seconds

    def one_like(self, job: Described) -> str | None:
        """Return the id of an unfinished job of the same most specific kind, None if there is none."""
        alike = self._alike.get(next(kinds(job)))
        return None if alike is None else next(iter(alike.jobs))

    def put(self, job_id: str, job: Described, seconds: float | None) -> None:
        """Take in that an unfinished job is expected to run for ``seconds``, and with it all that are like it."""
        most_specific = next(kinds(job))
        alike = self._alike.get(most_specific)
        if alike is None:
            own = tuple(kinds(job))
            alike = self._alike[most_specific] = _Alike(own, seconds, self._run_times.source(own))
            for kind in own:
                self._below[kind][most_specific] = None
        if alike.seconds != seconds:
            alike.seconds, alike.source = seconds, self._run_times.source(alike.kinds)
        alike.jobs[job_id] = None

    def remove(self, job_id: str, job: Described) -> None:
        """Forget a job, which has ended."""
        most_specific = next(kinds(job))
        alike = self._alike.get(most_specific)
        if alike is None:
            return
        alike.jobs.pop(job_id, None)
        if alike.jobs:
            return
        del self._alike[most_specific]
        self._due.pop(most_specific, None)
        for kind in alike.kinds:
            del self._below[kind][most_specific]
            if not self._below[kind]:
                del self._below[kind]

    def learn(self, job: Described, seconds: float) -> None:
        """Add the run time of a job that has ended, in seconds with all workers."""
        self._run_times.learn(job, seconds)
        for place, kind in enumerate(kinds(job)):
            below = self._below.get(kind, {})
            self._due.update((each, None) for each in below if self._alike[each].source >= place)

    def renewals(self) -> Iterator[Renewal]:
        """Iterate over what is to be renewed: the same again until `put` has taken it in."""
        for most_specific in list(self._due):
            alike = self._alike[most_specific]
            alike.source = self._run_times.source(alike.kinds)
            seconds = self._run_times.usual_of(alike.kinds)
            if seconds is None or not _differ(alike.seconds, seconds):
                del self._due[most_specific]
            else:
                yield Renewal(tuple(alike.jobs), seconds)


def _differ(expected: float | None, usual: float) -> bool:
    if expected is None:
        return True
    return max(expected, usual) > NOTABLE_RATIO * min(expected, usual)
