"""How fast jobs ran where: what tells how the next one of their kind should sit."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from statistics import median

from springtide.scheduler.engine.run_times import KEPT, KINDS, stem
from springtide.scheduler.model import Spread
from springtide.scheduler.policy.spread import Topology
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord, JobSpec

ENOUGH = 3
"""Attempts that have to have sat in one way before anything is made of it."""

LEAST = 60.0
"""Seconds an attempt has to have run for, or it tells more of how jobs start than of how they run."""

NOTABLY = 0.95
"""The fastest way takes no more than this part of the time of the next best, or it is not worth to look for it."""

Kind = tuple[str, str, str, int, int]
Pace = tuple[str, float]
"""What was measured, and the seconds it took: a ``step``, or a whole ``run``. Paces of one sort are comparable."""


class Paces:
    """The paces of jobs by kind and spread. A kind are jobs of one user and project with the same name and size.

    Jobs report their steps, or not: then attempts that ran from the beginning to the end are compared.
    """

    def __init__(self) -> None:
        self._paces: OrderedDict[tuple[Kind, str], dict[Spread, deque[float]]] = OrderedDict()

    def learn(self, job: JobRecord, topology: Topology) -> None:
        """Take note of the attempts of a job that has ended, as far as its nodes are still as they were."""
        if job.spec.workers * job.spec.gpus == 1:
            return
        kind = _kind(job.spec)
        for attempt, after in _with_next(job):
            spread = topology.spread(attempt.placement)
            pace = _pace(job, attempt, after)
            if spread is not None and pace is not None and len(attempt.placement) == job.spec.workers:
                measure, seconds = pace
                known = self._paces.setdefault((kind, measure), {})
                known.setdefault(spread, deque(maxlen=KEPT)).append(seconds)
                self._paces.move_to_end((kind, measure))
        while len(self._paces) > KINDS:
            self._paces.popitem(last=False)

    def fastest(self, job: JobSpec) -> Spread | None:
        """How jobs of this kind sat that ran fastest, and notably so; None if that is not known."""
        kind = _kind(job)
        for measure in ("step", "run"):
            known = self._paces.get((kind, measure), {})
            paces = sorted((median(times), spread) for spread, times in known.items() if len(times) >= ENOUGH)
            if len(paces) > 1:
                return paces[0][1] if paces[0][0] <= NOTABLY * paces[1][0] else None
        return None


def _kind(job: JobSpec) -> Kind:
    return (job.user, job.project, stem(job.name), job.workers, job.gpus)


def _with_next(job: JobRecord) -> Iterator[tuple[AttemptRecord, AttemptRecord | None]]:
    for at, attempt in enumerate(job.attempts):
        yield attempt, job.attempts[at + 1] if at + 1 < len(job.attempts) else None


def _pace(job: JobRecord, attempt: AttemptRecord, after: AttemptRecord | None) -> Pace | None:
    """How fast the attempt was, if that can be told."""
    if attempt.started is None or attempt.ended is None or attempt.ended - attempt.started < LEAST:
        return None
    seconds = attempt.ended - attempt.started
    reached = job.standing.best_step if after is None else after.step_before
    steps = 0.0 if reached is None else reached - (attempt.step_before or 0.0)
    if steps > 0:
        return ("step", seconds / steps)
    if reached is None and attempt.number == 1 and attempt.state is AttemptState.SUCCEEDED:
        return ("run", seconds)
    return None
