"""The times at which running jobs reach their time limits."""

from __future__ import annotations

import heapq

from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.store.records import JobRecord


class TimeLimits:
    """A priority queue of deadlines, at most one for each job, in seconds since the epoch."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._deadline_of: dict[str, float] = {}

    def watch(self, job_id: str, job: JobRecord | None) -> None:
        """Set the deadline of a job from its record; None or a job without a deadline removes it."""
        deadline = lifecycle.deadline(job) if job is not None else None
        if deadline is None:
            self._deadline_of.pop(job_id, None)
        elif self._deadline_of.get(job_id) != deadline:
            self._deadline_of[job_id] = deadline
            heapq.heappush(self._heap, (deadline, job_id))

    def take_due(self, now: float) -> list[str]:
        """Remove and return the ids of the jobs whose deadline has come."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            deadline, job_id = heapq.heappop(self._heap)
            if self._deadline_of.get(job_id) == deadline:
                del self._deadline_of[job_id]
                due.append(job_id)
        return due

    def next_at(self) -> float | None:
        """Return the earliest time at which `take_due` may return something, None if there is no deadline."""
        return self._heap[0][0] if self._heap else None
