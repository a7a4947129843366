"""Service: the GPU time that jobs have had or usually take, in coarse steps, and the times of the next step."""

from __future__ import annotations

from springtide.scheduler.model import Job, Surplus

SERVICE_LEVEL = 4 * 3600.0
"""GPU-seconds of the first step of service; every further step is twice as long.

Four hours on one GPU, by measurement (docs/policy.md, Least served): most jobs end within it, and stopping one
shortly before its end for a similar job helps neither. With doubling steps a job is rotated at most once per step,
so the number of its pauses grows with the logarithm of its GPU time.
"""

AGEING_PER_LEVEL = 4 * 86_400.0
"""Seconds of waiting that offset one step of service, so that no job waits for ever behind newer ones.

A job started for its long wait is not rotated at once: its waiting time counts as long as it runs.
"""

RANKS_PER_LEVEL = 32
"""Number of service ranks of each level; the last one is for jobs without a similar job that has ended."""

ROUNDING = 0.01
"""GPU-seconds of service, or seconds, by which a sum of times may be too small: times are floating-point."""


def usual_service(job: Job) -> float:
    """Return the GPU-seconds that similar jobs usually take, 0 if unknown."""
    return (job.usual_runtime or 0.0) * job.workers * job.gpus


def ranked_service(job: Job, now: float, surplus: Surplus) -> float:
    """Return the GPU-seconds that rank a job: its own and its sweep's, or the usual ones if they are more.

    Usual run times do not count if the surplus goes to the least served.
    """
    had = job.sweep_served + job.served_by(now)
    return had if surplus is Surplus.LEAST_SERVED else max(had, usual_service(job))


def level_of(job: Job) -> int:
    """Return the step of a job's service so far: 0 below `SERVICE_LEVEL`, one more with each doubling.

    It is at least the step of the usual service of similar jobs: a job with a long usual run time begins after
    those with a short one, and is not stopped again and again on its way there.
    """
    return _level(max(job.attained, usual_service(job)))


def _level(service: float) -> int:
    return int((service + ROUNDING) / SERVICE_LEVEL).bit_length()


def expected_service(job: Job) -> float:
    """Return the GPU-seconds that a waiting job is still expected to take.

    This is the usual service of similar jobs, less its own so far; once that is used up, as much again as its own.
    """
    left = usual_service(job) - job.served
    return left if left > ROUNDING else job.served


def service_rank_of(job: Job, moved_up: int = 0) -> int:
    """Return the rank of a waiting job among those of equal priority: the lowest is served first.

    It counts the level of the job's expected service plus its sweep's past service, less the levels that waiting
    offsets (``moved_up``), and within a level the expected service in doubling steps from a GPU-second. Rank 0 is
    for jobs whose waiting offsets more levels than they have.
    """
    expected = expected_service(job)
    level = _level(job.sweep_served + expected) - moved_up
    if level < 0:
        return 0
    steps = RANKS_PER_LEVEL - 1 if job.usual_runtime is None else int(expected + ROUNDING).bit_length()
    return level * RANKS_PER_LEVEL + min(steps, RANKS_PER_LEVEL - 1)


def service_until(service_level: int) -> float:
    """Return the service at which the step after ``service_level`` begins."""
    return SERVICE_LEVEL * (1 << service_level)


def waiting_since(job: Job) -> float:
    """Return the time since which the job would have waited, had it always run with all its workers."""
    return job.submitted + job.served / (job.gpus * job.workers)


def awaits_turn_since(job: Job) -> float:
    """Return the time since which the job would have waited for a turn: its last one begins the wait anew.

    So a job that has had a turn goes behind all that waited then, however much earlier it was submitted.
    """
    since = waiting_since(job)
    return since if job.last_turn is None else max(since, job.last_turn)


def aged(job: Job, at: float | None) -> int:
    """Return how many steps of service the job's waiting time until ``at`` offsets; 0 for None.

    The waiting time before its start counts as long as a job runs.
    """
    return 0 if at is None else max(0, int((at - waiting_since(job) + ROUNDING) // AGEING_PER_LEVEL))


def beyond(job: Job, service_level: int) -> float:
    """Return when a running job's service exceeds the level, raised by the steps that its waiting offset."""
    until = service_until(service_level + aged(job, job.started))
    missing = 0.0 if usual_service(job) + ROUNDING >= until else until - job.attained
    return (job.started or 0.0) + max(0.0, missing) / job.held_gpus
