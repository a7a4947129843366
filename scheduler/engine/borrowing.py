"""Which of the GPUs that a project holds are borrowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from springtide.scheduler.store.records import JobRecord

Order = tuple[bool, float, int]
Bound = tuple[Order, int]
"""The first job that the quota does not hold as a whole, and how many of its GPUs are beyond it."""


def filling_order(job: JobRecord) -> Order:
    """How live jobs fill a quota: those that cannot be paused first, then those that started first."""
    return (job.spec.preemptible, job.attempts[-1].created, job.spec.seq)


class Borrowing:
    """How many GPUs live jobs hold beyond their projects' quotas.

    ``live_in`` gives a project's live jobs in `filling_order`, ``quota_of`` its quota in GPUs, None if it has no
    bound. Of each project asked about, only the jobs within the quota are looked at, and once.
    """

    def __init__(
        self, live_in: Callable[[str], Iterable[JobRecord]], quota_of: Callable[[str], int | None]
    ) -> None:
        self._live_in = live_in
        self._quota_of = quota_of
        self._bounds: dict[str, Bound | None] = {}

    def of(self, job: JobRecord) -> int:
        """The borrowed GPUs of a job, the last ones it holds; 0 if it holds none."""
        if job.live is None:
            return 0
        project = job.spec.project
        if project not in self._bounds:
            self._bounds[project] = self._bound(project)
        bound = self._bounds[project]
        order = filling_order(job)
        if bound is None or order < bound[0]:
            return 0
        return bound[1] if order == bound[0] else job.live.gpus

    def _bound(self, project: str) -> Bound | None:
        quota = self._quota_of(project)
        if quota is None:
            return None
        held = 0
        for job in self._live_in(project):
            held += job.attempts[-1].gpus
            if held > quota:
                return (filling_order(job), held - quota)
        return None
