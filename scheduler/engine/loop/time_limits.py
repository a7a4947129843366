"""The times at which running jobs are near their time limits, and at which jobs without GPUs can run again."""

from __future__ import annotations

import heapq

from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.store.records import JobRecord


class TimeLimits:
    """A priority queue of times to look at jobs, at most one for each job, in seconds since the epoch."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._check_of: dict[str, float] = {}

    def watch(self, job_id: str, job: JobRecord | None) -> None:
        """Set the next time to look at a job from its record; None, or a job with nothing to wait for, removes it.

        The planner wakes jobs that need GPUs after their back-off.
        """
        at = None if job is None else lifecycle.time_limit_check(job) or lifecycle.back_off_end(job)
        if at is None:
            self._check_of.pop(job_id, None)
        elif self._check_of.get(job_id) != at:
            self._check_of[job_id] = at
            heapq.heappush(self._heap, (at, job_id))

    def take_due(self, now: float) -> list[str]:
        """Remove and return the ids of the jobs whose time has come."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            at, job_id = heapq.heappop(self._heap)
            if self._check_of.get(job_id) == at:
                del self._check_of[job_id]
                due.append(job_id)
        return due

    def next_at(self) -> float | None:
        """Return the earliest time at which `take_due` may return something, None if there is none."""
        return self._heap[0][0] if self._heap else None
