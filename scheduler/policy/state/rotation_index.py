"""When running jobs have had so much service that they may have to give way to equal ones with less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.job_queues import aged, service_until

STALE_ENTRIES = 16
"""So many entries of jobs that run no longer are kept beside those of twice the jobs that do."""

HeapEntry = tuple[float, int, Job]
"""When a job is ripe, and a number that tells equal times apart."""


class RotationIndex:
    """The running jobs of one project that can be rotated, by when they are ripe.

    A job is ripe for a step of service once its own service is beyond that step and its minimum run time, in
    seconds, is over. What it had waited before it was started makes up for service, for it was started for that.
    To add or remove a job costs the logarithm of their number, to ask costs what is answered.
    """

    def __init__(self, min_runtime: float) -> None:
        self._min_runtime = min_runtime
        self._jobs: dict[str, Job] = {}
        self._by_level: dict[int, list[HeapEntry]] = {}
        self._count = 0

    def add(self, job: Job) -> None:
        """A job runs."""
        if not job.rotate or job.started is None or not job.held_gpus:
            return
        self._jobs[job.id] = job
        for level, heap in self._by_level.items():
            heappush(heap, self._entry(job, level))

    def remove(self, job_id: str) -> None:
        """A job runs no longer, if it did."""
        self._jobs.pop(job_id, None)

    def first(self, level: int) -> float | None:
        """When the first of them is ripe for the step; None if none ever is."""
        heap = self._heap(level)
        return heap[0][0] if heap else None

    def after(self, level: int, now: float) -> float | None:
        """When the first of those that are not ripe by ``now`` will be."""
        return min((at for at, _, job in self._reach(level, now) if at > now and self._runs(job)), default=None)

    def ripe(self, level: int, now: float) -> list[Job]:
        """Those that are ripe for the step by now, in no order."""
        return [job for at, _, job in self._reach(level, now) if at <= now and self._runs(job)]

    def _reach(self, level: int, now: float) -> Iterator[HeapEntry]:
        """All that are ripe by ``now``, and among others the first after them."""
        heap = self._heap(level)
        ahead = [0] if heap else []
        while ahead:
            index = ahead.pop()
            entry = heap[index]
            yield entry
            if entry[0] <= now or not self._runs(entry[2]):
                ahead.extend(below for below in (2 * index + 1, 2 * index + 2) if below < len(heap))

    def _heap(self, level: int) -> list[HeapEntry]:
        """The entries of a step, one of a job that runs at the top."""
        heap = self._by_level.get(level)
        if heap is None or len(heap) > 2 * len(self._jobs) + STALE_ENTRIES:
            heap = self._by_level[level] = list(self._entries(level, self._jobs.values()))
            heapify(heap)
        while heap and not self._runs(heap[0][2]):
            heappop(heap)
        return heap

    def _runs(self, job: Job) -> bool:
        return self._jobs.get(job.id) is job

    def _entries(self, level: int, jobs: Iterable[Job]) -> Iterator[HeapEntry]:
        return (self._entry(job, level) for job in jobs)

    def _entry(self, job: Job, level: int) -> HeapEntry:
        assert job.started is not None
        self._count += 1
        beyond = service_until(level + aged(job, job.started))
        served = job.started + max(0.0, beyond - job.attained) / job.held_gpus
        return (max(served, job.started + self._min_runtime), self._count, job)
