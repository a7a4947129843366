"""Minimum run times: until when a running job is left alone."""

from __future__ import annotations

from math import inf

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.service import waiting_since

MIN_RESUMED_RUNTIME = 1.0
"""Minimum run time of a resumed job, in seconds, if the setting is less.

Requests that are served one after the other at one instant do not stop the same job again and again.
"""

MAX_DOUBLINGS = 16
"""Maximum number of times that a job's minimum run time doubles."""

TURN = 3600.0
"""Time for which only guaranteed jobs take the GPUs of a job started in its turn, in seconds."""


def protected_until(job: Job, least: float) -> float:
    """Return the end of the job's minimum run time, which ``least`` seconds are set for."""
    return (job.started or 0.0) + (max(least, MIN_RESUMED_RUNTIME) if job.attempts > 1 else least)


def protected_from_guaranteed(job: Job, least: float, guaranteed: Job) -> float:
    """Return the end of the job's minimum run time against a ``guaranteed`` job.

    It doubles with each attempt, so that requests submitted and withdrawn repeatedly do not keep pausing the same
    job. The deadline of the guarantee stays: the guaranteed job waits one minimum run time at most.
    """
    usual = protected_until(job, least)
    if least <= 0:
        return usual
    doubled = (job.started or 0.0) + least * 2.0 ** min(job.attempts - 1, MAX_DOUBLINGS)
    return max(usual, min(doubled, waiting_since(guaranteed) + least))


def turn_end(job: Job) -> float:
    """Return when the turn of a running job ends, in seconds; minus infinity if it did not start in its turn."""
    return (job.started or 0.0) + TURN if job.turn else -inf


def protected_from_others(job: Job, least: float) -> float:
    """Return until when no job takes the GPUs of a running one unless its quota guarantees them."""
    return max(protected_until(job, least), turn_end(job))
