"""Numbers of borrowed GPUs: those that a project holds beyond its quota of their type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from springtide.scheduler.store.records import AttemptRecord, JobRecord

Order: TypeAlias = tuple[bool, bool, float, int]
Bound: TypeAlias = tuple[Order, int]
"""The first job that the quota does not hold as a whole, and the number of its GPUs beyond the quota."""
Bounds: TypeAlias = dict[tuple[str, str], Bound | None]
"""Where quotas end, by project and GPU type; None if a quota holds all of the project's jobs."""


def filling_order(job: JobRecord) -> Order:
    """Return the sort key by which live jobs fill a quota: non-preemptible ones first, then the oldest.

    Attempts that are asked to stop come last among the preemptible ones: their GPUs are those that are given back.
    """
    attempt = job.attempts[-1]
    preemptible = job.spec.options.is_preemptible
    return (preemptible, preemptible and attempt.asked is not None, attempt.created, job.spec.seq)


def holds_the_same(one: JobRecord | None, other: JobRecord | None) -> bool:
    """Return whether two records of a job, None for one that is unknown, fill a quota alike."""
    before, after = (None if job is None else job.live for job in (one, other))
    if before is None or after is None:
        return before is after
    return _held(before) == _held(after)


def _held(attempt: AttemptRecord) -> tuple[object, ...]:
    """Return what decides how an attempt fills a quota."""
    return attempt.number, attempt.created, attempt.placement, attempt.gpu_type, attempt.asked is None


class Borrowing:
    """The numbers of GPUs that live jobs hold beyond their projects' quotas.

    ``live_in`` returns a project's live jobs in `filling_order`, ``quota_of`` its quota of a GPU type, None if it
    is unlimited. Each is computed once, when first asked for, from the jobs within the quota; ``bounds`` are known
    already, and receive the computed ones.
    """

    def __init__(
        self,
        live_in: Callable[[str], Iterable[JobRecord]],
        quota_of: Callable[[str, str], int | None],
        bounds: Bounds,
    ) -> None:
        self._live_in = live_in
        self._quota_of = quota_of
        self._bounds = bounds

    def bounds_except(self, projects: Collection[str]) -> Bounds:
        """Return the bounds of all other projects, by project and GPU type."""
        return {key: bound for key, bound in self._bounds.items() if key[0] not in projects}

    def forget(self, project: str) -> None:
        """Compute a project's numbers again, because what its jobs hold has changed."""
        for key in [key for key in self._bounds if key[0] == project]:
            del self._bounds[key]

    def of(self, job: JobRecord) -> int:
        """Return the number of borrowed GPUs of a job, which are the last ones it holds."""
        if job.live is None:
            return 0
        bound, order = self.bound(job.spec.project, job.live.gpu_type), filling_order(job)
        if bound is None or order < bound[0]:
            return 0
        return bound[1] if order == bound[0] else job.live.gpus

    def bound(self, project: str, gpu_type: str) -> Bound | None:
        """Return where a project's quota of a type ends, None if it holds all of the project's jobs."""
        key = project, gpu_type
        if key not in self._bounds:
            self._bounds[key] = self._bound(project, gpu_type)
        return self._bounds[key]

    def _bound(self, project: str, gpu_type: str) -> Bound | None:
        quota = self._quota_of(project, gpu_type)
        if quota is None:
            return None
        held = 0
        for job in self._live_in(project):
            if job.attempts[-1].gpu_type != gpu_type:
                continue
            held += job.attempts[-1].gpus
            if held > quota:
                return (filling_order(job), held - quota)
        return None
