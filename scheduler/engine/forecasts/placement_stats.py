"""Speed of ended jobs by placement, from which the best placement of the next job of their kind is chosen."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from statistics import median

from springtide.scheduler.engine.forecasts.run_times import MAX_KINDS, MAX_SAMPLES, name_without_digits
from springtide.scheduler.engine.forecasts.topology import Topology
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.model import Spread
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord, JobSpec

MIN_SAMPLES = 3
"""Minimum number of attempts with one spread before it is compared with others."""

MIN_RUN_TIME = 60.0
"""Minimum run time of an attempt that counts, in seconds: a shorter one measures the start-up."""

NOTABLE_RATIO = 0.95
"""Maximum time of the fastest spread as a part of that of the second, for it to be preferred."""

Kind = tuple[str, str, str, int, int]
Placed = tuple[str, Spread]
"""GPU type and spread of an attempt."""
Measurement = tuple[str, float]
"""What was measured, and its duration in seconds: one ``step``, or a whole ``run``."""


class PlacementStats:
    """Durations by kind of job and spread. Jobs of one user and project with the same name and size are one kind.

    Durations of steps are compared where jobs report steps, durations of whole runs where they do not.
    """

    def __init__(self) -> None:
        self._durations: LruCache[tuple[Kind, str], dict[Placed, deque[float]]] = LruCache(MAX_KINDS)

    def learn(self, job: JobRecord, topology: Topology) -> None:
        """Add the attempts of a job that has ended, if their nodes are still in the topology."""
        if job.spec.workers * job.spec.gpus <= 1:
            return
        kind = _kind(job.spec)
        for attempt, following in _with_following(job):
            spread = topology.spread(attempt.placement)
            measurement = _measure(job, attempt, following)
            if spread is None or measurement is None or len(attempt.placement) != job.spec.workers:
                continue
            measure, seconds = measurement
            placed: dict[Placed, deque[float]] = self._durations.get_or_put((kind, measure), dict)
            placed.setdefault((attempt.gpu_type, spread), deque(maxlen=MAX_SAMPLES)).append(seconds)

    def fastest(self, job: JobSpec) -> Spread | None:
        """Return the notably fastest spread of jobs of this kind, None if there is none.

        Spreads are compared on GPUs of one type, the one on which the most spreads were measured.
        """
        kind = _kind(job)
        for measure in ("step", "run"):
            measured = [
                (gpu_type, median(seconds), spread)
                for (gpu_type, spread), seconds in (self._durations.get((kind, measure)) or {}).items()
                if len(seconds) >= MIN_SAMPLES
            ]
            types = Counter(gpu_type for gpu_type, _, _ in measured)
            usual = max(types, key=lambda each: types[each], default="")
            medians = sorted((seconds, spread) for gpu_type, seconds, spread in measured if gpu_type == usual)
            if len(medians) > 1:
                return medians[0][1] if medians[0][0] <= NOTABLE_RATIO * medians[1][0] else None
        return None


def _kind(job: JobSpec) -> Kind:
    return (job.user, job.project, name_without_digits(job.name), job.workers, job.gpus)


def _with_following(job: JobRecord) -> Iterator[tuple[AttemptRecord, AttemptRecord | None]]:
    """Iterate over the attempts with the one after each."""
    for at, attempt in enumerate(job.attempts):
        yield attempt, job.attempts[at + 1] if at + 1 < len(job.attempts) else None


def _measure(job: JobRecord, attempt: AttemptRecord, following: AttemptRecord | None) -> Measurement | None:
    """Return the speed of an attempt, None if it cannot be told."""
    if attempt.started is None or attempt.ended is None or attempt.ended - attempt.started < MIN_RUN_TIME:
        return None
    seconds = attempt.ended - attempt.started
    reached = job.standing.best_step if following is None else following.step_before
    steps = 0.0 if reached is None else reached - (attempt.step_before or 0.0)
    if steps > 0:
        return ("step", seconds / steps)
    if reached is None and attempt.number == 1 and attempt.state is AttemptState.SUCCEEDED:
        return ("run", seconds)
    return None
