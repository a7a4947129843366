"""What our objects are called, and how they are recognized."""

from __future__ import annotations

import re

from springtide.scheduler.executors.base import AttemptKey, ExecutorError

JOB = "springtide.io/job"
ATTEMPT = "springtide.io/attempt"
RANK = "springtide.io/rank"
EPOCH = "springtide.io/epoch"
POOL = "springtide.io/pool"
PROJECT = "springtide.io/project"
USER = "springtide.io/user"
SPEC = "springtide.io/spec"
WORKER = "springtide.io/worker"
SIZE = "springtide.io/size"
GRACE = "springtide.io/grace"
RECORDED = "springtide.io/recorded"
"""The finalizer that keeps a pod until its end is on record."""

_JOB = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def check_job(job: str) -> str:
    """The id, fit to be part of a name in the cluster; raises `ExecutorError` for any other."""
    if not _JOB.fullmatch(job):
        raise ExecutorError(
            f"{job!r} is not the id of a job on a cluster: small letters, digits and '-', 40 at most."
        )
    return job


def gang_name(key: AttemptKey) -> str:
    """The name of the Service under which the workers of an attempt find each other."""
    return f"st-{key.job}-{key.attempt}"


def pod_name(key: AttemptKey, rank: int) -> str:
    """The name of a worker's pod."""
    return f"st-{key.job}-{key.attempt}-{rank}"


def host_name(place: int) -> str:
    """What the worker at this place of a gang is called within it."""
    return f"w{place}"
