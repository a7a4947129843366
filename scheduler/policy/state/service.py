"""Service: GPU time that jobs have had or usually take, in coarse steps; when running jobs reach the next one."""

from __future__ import annotations

from springtide.scheduler.model import Job, Surplus

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


def usual_service(job: Job) -> float:
    """Return the GPU-seconds that similar jobs usually take, 0 where that is not known."""
    return (job.usual_runtime or 0.0) * job.workers * job.gpus


def ranked_service(job: Job, now: float, surplus: Surplus) -> float:
    """Return the GPU-seconds that rank a job: its own and its sweep's, or the usual ones where these are more.

    Usual run times do not count where the surplus goes to the least served.
    """
    had = job.sweep_served + job.served_by(now)
    return had if surplus is Surplus.LEAST_SERVED else max(had, usual_service(job))


def level_of(job: Job) -> int:
    """Return the step of a job's service so far: 0 below `SERVICE_LEVEL`, one more with each doubling.

    It is at least the step of what similar jobs usually take: a job known to be long begins after those known to
    be short, and is not stopped again and again on its way there.
    """
    return _level(max(job.attained, usual_service(job)))


def _level(service: float) -> int:
    return int((service + ROUNDING) / SERVICE_LEVEL).bit_length()


def expected_service(job: Job) -> float:
    """Return the GPU-seconds that a waiting job is expected to still take.

    This is what similar jobs usually take, less what it has had; once it has had that, as much again as it has
    had.
    """
    left = usual_service(job) - job.served
    return left if left > 0.0 else job.served


def service_rank_of(job: Job, moved_up: int = 0) -> int:
    """Return the rank of a waiting job among those of equal priority: the lowest is served first.

    It counts the level of what the job is expected to still take and its sweep has had, less the levels that
    waiting makes up for (``moved_up``), and within a level what the job is expected to still take, in doubling
    steps from a GPU-second. Rank 0 is that of a job that has waited for more levels than it has.
    """
    expected = expected_service(job)
    level = _level(job.sweep_served + expected) - moved_up
    if level < 0:
        return 0
    steps = RANKS_PER_LEVEL - 1 if job.usual_runtime is None else int(expected).bit_length()
    return level * RANKS_PER_LEVEL + min(steps, RANKS_PER_LEVEL - 1)


def service_until(service_level: int) -> float:
    """Return the least service that is in a later step than ``service_level``."""
    return SERVICE_LEVEL * (1 << service_level)


def waiting_since(job: Job) -> float:
    """Return since when the job would have waited, had it always run with all its workers."""
    return job.submitted + job.served / (job.gpus * job.workers)


def aged(job: Job, at: float | None) -> int:
    """Return how many steps of service the job's waiting until then makes up for: none until None.

    The waiting before its start counts as long as a job runs.
    """
    return 0 if at is None else max(0, int((at - waiting_since(job)) // AGEING_PER_LEVEL))


def beyond(job: Job, service_level: int) -> float:
    """Return when a running job has more service than the level, beside what its waiting made up for."""
    until = service_until(service_level + aged(job, job.started))
    missing = 0.0 if usual_service(job) + ROUNDING >= until else until - job.attained
    return (job.started or 0.0) + max(0.0, missing) / job.held_gpus
