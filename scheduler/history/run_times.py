"""Run times of ended jobs, from which those of similar jobs are estimated."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from springtide.scheduler.history.similar import Described, Kind, kinds
from springtide.scheduler.lru_cache import LruCache

MAX_SAMPLES = 50
"""Number of latest run times kept of one kind of job."""
MAX_KINDS = 10_000
"""Maximum number of kinds, the most recently used ones."""
MIN_SAMPLES = 3
"""Minimum number of run times of a kind that is not the most specific one."""
LATEST = 9
"""Number of latest run times whose median is the usual one: jobs are most like those just before them."""


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
        """Add the run time of a job that has ended, in whatever way, in seconds with all workers."""
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
        samples = self._similar(kinds(job))
        if samples is None:
            return ()
        if samples.ordered is None:
            samples.ordered = tuple(sorted(samples.latest))
        return samples.ordered

    def usual(self, job: Described) -> float | None:
        """Return how long the latest jobs like this one took, the median in seconds; None if there is none."""
        return self.usual_of(kinds(job))

    def usual_of(self, own: Iterable[Kind]) -> float | None:
        """Return how long the latest jobs took that are like one of these kinds, the most specific one first."""
        samples = self._similar(own)
        if samples is not None and samples.usual is None:
            samples.usual = median(list(samples.latest)[-LATEST:])
        return None if samples is None else samples.usual

    def source(self, own: Sequence[Kind]) -> int:
        """Return the place of the kind among ``own`` that `usual_of` takes, their number if it takes none."""
        return next((place for place, kind in enumerate(own) if self._known(kind, place)), len(own))

    def _similar(self, own: Iterable[Kind]) -> _Samples | None:
        return next((found for place, kind in enumerate(own) if (found := self._known(kind, place))), None)

    def _known(self, kind: Kind, place: int) -> _Samples | None:
        """Return the run times of a kind, None if they are too few; ``place`` is 0 for the most specific one."""
        samples = self._samples.get(kind)
        return samples if samples is not None and len(samples.latest) >= (MIN_SAMPLES if place else 1) else None
