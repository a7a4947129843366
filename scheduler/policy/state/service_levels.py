"""The levels of service of all jobs, for a surplus that goes to the least served."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.job_queues import aged, service_level_of, service_until


class ServiceLevels:
    """The level of service of each job, and when running jobs reach the next one.

    As in the rotation within projects, the time that a job had waited before its start makes up for service while
    it runs.
    """

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        self._times: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}

    def add(self, job: Job, level: int | None = None) -> int:
        """Add a job at a level, by default that of its service when the attempt started; return the level."""
        if level is None:
            level = max(0, service_level_of(job.attained) - _made_up(job))
        self._levels[job.id] = level
        if job.started is not None and job.held_gpus:
            beyond = service_until(level + _made_up(job)) - job.attained
            due = self._due[job.id] = job.started + max(0.0, beyond) / job.held_gpus
            heappush(self._times, (due, job.id))
        return level

    def remove(self, job_id: str) -> int:
        """Remove a job; return its level."""
        self._due.pop(job_id, None)
        return self._levels.pop(job_id)

    def level_at(self, job: Job, now: float) -> int:
        """Return the level of a running job, at least the one after its present level if that is over."""
        reached = max(0, service_level_of(job.sweep_served + job.served_by(now)) - _made_up(job))
        return max(self._levels[job.id] + 1, reached)

    def due(self, now: float) -> list[str]:
        """Return the running jobs that have reached their next level."""
        found: list[str] = []
        while self.next_time() <= now:
            found.append(heappop(self._times)[1])
            del self._due[found[-1]]
        return found

    def next_time(self) -> float:
        """Return when a running job reaches its next level, or infinity."""
        while self._times and self._due.get(self._times[0][1]) != self._times[0][0]:
            heappop(self._times)
        return self._times[0][0] if self._times else inf


def _made_up(job: Job) -> int:
    return 0 if job.started is None else aged(job, job.started)
