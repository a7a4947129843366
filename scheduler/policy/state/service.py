"""Service: GPU time that jobs have had or usually take, in coarse steps; when running jobs reach the next one."""

from __future__ import annotations

from operator import itemgetter

from sortedcontainers import SortedKeyList

from springtide.scheduler.model import Job, Surplus
from springtide.scheduler.policy.state.timers import Timers

SERVICE_LEVEL = 4 * 3600.0
"""GPU-seconds of the first step of service; every further step is twice as long.

Four hours on one GPU, by measurement (docs/policy.md): most jobs end within it, and to stop one shortly before
its end for another like it helps nobody. With doubling steps a job is rotated at most once per step, so the pauses
of its life grow with the logarithm of it.
"""

AGEING_PER_LEVEL = 4 * 86_400.0
"""Seconds of waiting that make up for one step of service, so that no job waits for ever behind newer ones.

A job that was started for having waited is not rotated at once: its waiting counts as long as it runs.
"""

RANKS_PER_LEVEL = 32
"""Number of service ranks of each level; the last one is that of jobs of which no similar one has ended."""

ROUNDING = 0.01
"""Service in GPU-seconds by which the sum of attempts may be too small, as times are floating-point numbers."""


def service_level_of(service: float) -> int:
    """Return the step of an amount of service: 0 below `SERVICE_LEVEL`, then one more with each doubling."""
    return int((service + ROUNDING) / SERVICE_LEVEL).bit_length()


def usual_service(job: Job) -> float:
    """Return the GPU-seconds that similar jobs usually take, 0 where that is not known."""
    return (job.usual_runtime or 0.0) * job.workers * job.gpus


def ranked_service(job: Job, now: float, surplus: Surplus) -> float:
    """Return the GPU-seconds that rank a job: its own and its sweep's, or the usual ones where these are more.

    Usual run times do not count where the surplus goes to the least served.
    """
    had = job.sweep_served + job.served_by(now)
    return had if surplus is Surplus.LEAST_SERVED else max(had, usual_service(job))


def level_with(job: Job, service: float) -> int:
    """Return the level of a job that has had this service, in GPU-seconds.

    It is at least the level of what similar jobs usually take: a job known to be long begins after those known to
    be short, and is not stopped again and again on its way there.
    """
    return service_level_of(max(service, usual_service(job)))


def service_rank_of(job: Job, moved_up: int = 0) -> int:
    """Return the rank of a waiting job among those of equal priority: the lowest is served first.

    It counts the level, less those that waiting makes up for (``moved_up``), and within a level what similar
    jobs usually still take, in doubling steps from a GPU-second. Rank 0 is that of a job that has waited for more
    levels than it has.
    """
    level = level_with(job, job.attained) - moved_up
    if level < 0:
        return 0
    left = max(0.0, usual_service(job) - job.served)
    steps = RANKS_PER_LEVEL - 1 if job.usual_runtime is None else int(left).bit_length()
    return level * RANKS_PER_LEVEL + min(steps, RANKS_PER_LEVEL - 1)


def service_until(service_level: int) -> float:
    """Return the least service that is in a later step than ``service_level``."""
    return SERVICE_LEVEL * (1 << service_level)


def waiting_since(job: Job) -> float:
    """Return since when the job would have waited, had it waited all the time that it has not run at once."""
    return job.submitted + job.served / (job.gpus * job.min_workers)


def has_waited_since(job: Job) -> float:
    """Return the earliest time since which the job may have waited, had it always run with all its workers."""
    return job.submitted + job.served / (job.gpus * job.workers)


def aged(job: Job, at: float) -> int:
    """Return how many steps of service the job's waiting makes up for, had it waited until then."""
    return max(0, int((at - waiting_since(job)) // AGEING_PER_LEVEL))


def _made_up(job: Job) -> int:
    return 0 if job.started is None else aged(job, job.started)


def _beyond(job: Job, service_level: int) -> float:
    """Return when a running job has more service than the level, beside what its waiting made up for."""
    until = service_until(service_level + _made_up(job))
    missing = 0.0 if usual_service(job) + ROUNDING >= until else until - job.attained
    return (job.started or 0.0) + max(0.0, missing) / job.held_gpus


class RotationIndex:
    """The running jobs of one project that can be rotated, by when they are ripe.

    A job is ripe for a step of service once its own service is beyond that step and its minimum run time, in
    seconds, is over.
    """

    def __init__(self, min_runtime: float) -> None:
        self._min_runtime = min_runtime
        self._jobs: dict[str, Job] = {}
        self._by_level: dict[int, SortedKeyList] = {}

    def add(self, job: Job) -> None:
        """Add a job that runs."""
        if job.rotate and job.started is not None and job.held_gpus:
            self._jobs[job.id] = job
            for level, entries in self._by_level.items():
                entries.add(self._entry(job, level))

    def remove(self, job_id: str) -> None:
        """Remove a job, if it is known."""
        if (job := self._jobs.pop(job_id, None)) is not None:
            for level, entries in self._by_level.items():
                entries.remove(self._entry(job, level))

    def first(self, level: int) -> float | None:
        """Return when the first job is ripe for the step, or None."""
        entries = self._entries(level)
        return entries[0][0] if entries else None

    def after(self, level: int, now: float) -> float | None:
        """Return when the first of those that are not ripe by ``now`` will be, or None."""
        entries = self._entries(level)
        index = entries.bisect_key_right(now)
        return entries[index][0] if index < len(entries) else None

    def ripe(self, level: int, now: float) -> list[Job]:
        """Return the jobs that are ripe for the step by now."""
        entries = self._entries(level)
        return [self._jobs[job_id] for _, job_id in entries[: entries.bisect_key_right(now)]]

    def _entries(self, level: int) -> SortedKeyList:
        if level not in self._by_level:
            entries = (self._entry(job, level) for job in self._jobs.values())
            self._by_level[level] = SortedKeyList(entries, key=itemgetter(0))
        return self._by_level[level]

    def _entry(self, job: Job, level: int) -> tuple[float, str]:
        return max(_beyond(job, level), (job.started or 0.0) + self._min_runtime), job.id


class ServiceLevels:
    """The level of service of each job, and when running jobs reach the next one.

    The time that a job had waited before its start makes up for service while it runs.
    """

    def __init__(self) -> None:
        self.ends = Timers()
        self._levels: dict[str, int] = {}

    def add(self, job: Job, level: int | None = None) -> int:
        """Add a job at a level, by default that of its service when the attempt started; return the level."""
        if level is None:
            level = max(0, level_with(job, job.attained) - _made_up(job))
        self._levels[job.id] = level
        if job.started is not None and job.held_gpus:
            self.ends.set(job.id, _beyond(job, level))
        return level

    def remove(self, job_id: str) -> int:
        """Remove a job; return its level."""
        self.ends.discard(job_id)
        return self._levels.pop(job_id)

    def level_at(self, job: Job, now: float) -> int:
        """Return the level of a running job, at least the one after its present level if that is over."""
        reached = max(0, level_with(job, job.sweep_served + job.served_by(now)) - _made_up(job))
        return max(self._levels[job.id] + 1, reached)
