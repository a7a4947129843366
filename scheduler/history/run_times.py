"""Run times of ended jobs, and the run times that unfinished jobs like them are expected to have."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median
from typing import NamedTuple, Protocol

from springtide.scheduler.lru_cache import LruCache

Kind = tuple[str | int, ...]


MAX_SAMPLES = 50
"""Number of latest run times kept of one kind of job."""
MAX_KINDS = 10_000
"""Maximum number of kinds, the most recently used ones."""
MIN_SAMPLES = 3
"""Minimum number of run times of any kind but the most specific one."""
LATEST = 9
"""Number of latest run times whose median is the usual one: jobs are most like those just before them."""
NOTABLE_RATIO = 1.25
"""Ratio between the usual and the expected run time from which on the expected one is renewed.

Jobs are ordered in doubling steps, so that smaller differences would change many jobs and no order.
"""


class Described(Protocol):
    """The description of a job at its submission."""

    @property
    def user(self) -> str:
        """The person who submitted it."""

    @property
    def project(self) -> str:
        """The project that it counts for."""

    @property
    def name(self) -> str:
        """Its name, as its user chose it."""

    @property
    def workers(self) -> int:
        """Number of its workers."""

    @property
    def gpus(self) -> int:
        """Number of GPUs of each worker."""


def kinds(job: Described) -> Iterator[Kind]:
    """Iterate over the kinds of a job, the most specific one first.

    Digits in names are ignored: ``sweep-7`` and ``sweep-8`` are the same name.
    """
    name, gpus = name_without_digits(job.name), job.workers * job.gpus
    yield ("name and size", job.user, job.project, name, gpus)
    yield ("name", job.user, name)
    yield ("size", job.user, job.project, gpus)
    yield ("project", job.project)
    yield ("any",)


@lru_cache(1024)
def name_without_digits(name: str) -> str:
    """Return a job's name in lower case with each run of digits replaced by ``#``."""
    return re.sub(r"\d+", "#", name.lower())


@dataclass(slots=True)
class _Samples:
    """The run times of one kind of job, in seconds.

    ``ordered`` is their sorted copy, ``usual`` the median of the last `LATEST`; None when out of date.
    """

    latest: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    ordered: tuple[float, ...] | None = None
    usual: float | None = None


class RunTimes:
    """Run times by kind of job, from the most specific kind to the most general one."""

    def __init__(self) -> None:
        self._samples: LruCache[Kind, _Samples] = LruCache(MAX_KINDS)

    def learn(self, job: Described, seconds: float) -> None:
        """Add the run time of an ended job, successful or not, in seconds with all workers."""
        if seconds <= 0:
            return
        for kind in kinds(job):
            samples = self._samples.get_or_put(kind, _Samples)
            samples.latest.append(seconds)
            samples.ordered = samples.usual = None

    def of_similar_jobs(self, job: Described) -> tuple[float, ...]:
        """Return the run times of ended jobs of the most specific kind with enough of them, shortest first.

        In seconds with all workers; empty if there is none.
        """
        return self.of_kinds(kinds(job))

    def of_kinds(self, own: Iterable[Kind]) -> tuple[float, ...]:
        """Return the times of the first kind with enough of them, shortest first; empty if there is none."""
        samples, _ = self._similar(own)
        if samples is None:
            return ()
        if samples.ordered is None:
            samples.ordered = tuple(sorted(samples.latest))
        return samples.ordered

    def usual(self, job: Described) -> float | None:
        """Return the median run time of the latest similar jobs, in seconds; None if there is none."""
        return self.usual_of(kinds(job))[0]

    def usual_of(self, own: Iterable[Kind]) -> tuple[float | None, int]:
        """Return the median run time of the latest jobs of the first known kind, and its index in ``own``.

        ``own`` has the most specific kind first. None, and the number of kinds, if none is known.
        """
        samples, source = self._similar(own)
        if samples is None:
            return None, source
        if samples.usual is None:
            samples.usual = median(list(samples.latest)[-LATEST:])
        return samples.usual, source

    def _similar(self, own: Iterable[Kind]) -> tuple[_Samples | None, int]:
        """Return the run times of the first kind with enough of them, and its index, else the number of kinds.

        One run time is enough of the most specific kind.
        """
        least, source = 1, 0
        for kind in own:
            samples = self._samples.get(kind)
            if samples is not None and len(samples.latest) >= least:
                return samples, source
            least = MIN_SAMPLES
            source += 1
        return None, source


class Renewal(NamedTuple):
    """Ids of similar jobs, and their new expected run time, in seconds."""

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
    """The expected run times of unfinished jobs, from the run times of similar ones.

    Jobs of one most specific kind have equal expectations, so that none of them overtakes an earlier submitted
    one.
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
        """Set the expected run time of an unfinished job, and of all jobs of its kind, in seconds."""
        most_specific = next(kinds(job))
        alike = self._alike.get(most_specific)
        if alike is None:
            own = tuple(kinds(job))
            alike = self._alike[most_specific] = _Alike(own, seconds, self._run_times.usual_of(own)[1])
            for kind in own:
                self._below[kind][most_specific] = None
        if alike.seconds != seconds:
            alike.seconds, alike.source = seconds, self._run_times.usual_of(alike.kinds)[1]
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
        """Add the run time of an ended job, in seconds with all workers."""
        self._run_times.learn(job, seconds)
        for place, kind in enumerate(kinds(job)):
            for specific in self._below.get(kind, ()):
                if self._alike[specific].source >= place:
                    self._due[specific] = None

    def renewals(self) -> Iterator[Renewal]:
        """Yield the renewals that are due: each comes again until `put` has recorded it."""
        for most_specific in list(self._due):
            alike = self._alike[most_specific]
            seconds, alike.source = self._run_times.usual_of(alike.kinds)
            if seconds is None or not _differ(alike.seconds, seconds):
                del self._due[most_specific]
            else:
                yield Renewal(tuple(alike.jobs), seconds)


def _differ(expected: float | None, usual: float) -> bool:
    if expected is None:
        return True
    return max(expected, usual) > NOTABLE_RATIO * min(expected, usual)
