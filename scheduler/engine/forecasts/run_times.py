"""Run times of ended jobs, from which forecasts estimate those of similar jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from springtide.scheduler import model
from springtide.scheduler.engine.placements.speed import name_without_digits
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.store.records import JobRecord

MAX_SAMPLES = 50
"""Number of latest run times kept of one kind of job."""
MAX_KINDS = 10_000
"""Maximum number of kinds, the most recently used ones."""
MIN_SAMPLES = 3
"""Minimum number of run times of a kind that is not the most specific one."""

Kind = tuple[str | int, ...]


@dataclass(slots=True)
class _Samples:
    """The run times of one kind of job, in seconds; ``ordered`` is their sorted copy, None when out of date."""

    latest: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    ordered: tuple[float, ...] | None = None


class RunTimes:
    """Run times by kind of job, from the most specific kind to the most general one.

    Jobs of one user with the same name and size are of the most specific kind. Digits in names are ignored:
    ``sweep-7`` and ``sweep-8`` are the same name.
    """

    def __init__(self) -> None:
        self._samples: LruCache[Kind, _Samples] = LruCache(MAX_KINDS)

    def learn(self, job: JobRecord) -> None:
        """Add the run time of a job that has ended, in whatever way."""
        spec, served = job.spec, job.standing.served
        if served <= 0:
            return
        seconds = served / (spec.workers * spec.gpus)
        for kind in _kinds(spec.user, spec.project, spec.name, spec.workers * spec.gpus):
            samples = self._samples.get_or_put(kind, _Samples)
            samples.latest.append(seconds)
            samples.ordered = None

    def of_similar_jobs(self, job: model.Job) -> tuple[float, ...]:
        """Return the run times of ended jobs of the most specific kind with enough of them, shortest first.

        In seconds with all workers; empty if there is none.
        """
        enough = 1
        for kind in _kinds(job.user, job.project, job.name, job.workers * job.gpus):
            samples = self._samples.get(kind)
            if samples is not None and len(samples.latest) >= enough:
                if samples.ordered is None:
                    samples.ordered = tuple(sorted(samples.latest))
                return samples.ordered
            enough = MIN_SAMPLES
        return ()


def _kinds(user: str, project: str, name: str, gpus: int) -> Iterator[Kind]:
    """Iterate over the kinds of a job, the most specific one first."""
    yield ("name and size", user, project, name_without_digits(name), gpus)
    yield ("name", user, name_without_digits(name))
    yield ("size", user, project, gpus)
    yield ("project", project)
    yield ("any",)
