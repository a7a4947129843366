"""Precedence: jobs that wait for others although GPUs are free."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from springtide.scheduler.model import Job, Order
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.service import level_of


def is_delayed(state: ClusterState, job: Job) -> bool:
    """Return whether jobs that are not stopping hold GPUs reserved for the job."""
    return any(job_id not in state.pausing for job_id in state.pool.holders(job.reserved))


def delayed_reservations(state: ClusterState) -> Iterator[Job]:
    """Yield the jobs with a delayed reservation, in the order of their ids."""
    return (job for _, job in sorted(state.awaiting.items()) if is_delayed(state, job))


def runtimes_awaited_until(builder: PlanBuilder, job: Job) -> float:
    """Return the end of the minimum run times that alone keep a guaranteed job from its reserved GPUs.

    In seconds; minus infinity if no quota guarantees the job, or no minimum run time is set or still lasts.
    """
    leaf = builder.state.tree.leaves.get(job.project)
    if leaf is None or builder.state.settings.min_runtime <= 0 or not admission.guaranteed(leaf, 0):
        return -inf
    holders = (builder.state.jobs[job_id] for job_id in builder.state.pool.holders(job.reserved))
    until = max((builder.protected_until(holder, job) for holder in holders), default=-inf)
    return until if until > builder.now else -inf


def outranked(state: ClusterState, job: Job) -> bool:
    """Return whether a waiting job of the same project with a higher priority would take the GPUs away again."""
    leaf = state.tree.leaves[job.project]
    own = job.held_gpus + sum(len(worker.gpus) for worker in job.reserved)
    for key, asks in state.queues[job.project].heads():
        other = state.jobs[key[3]]
        if other.priority <= job.priority:
            return False
        if (
            admission.over_limit(leaf, asks.need - own) is None
            and admission.beyond_quota(leaf, other, asks.need) is None
        ):
            return True
    return False


def invites_rotation(state: ClusterState, job: Job, gpus: int) -> bool:
    """Return whether a waiting job of equal priority and less service would take this many GPUs of the job."""
    if state.settings.order is not Order.LEAST_SERVED or not job.rotate:
        return False
    level = level_of(job)
    return any(
        -key[0] == job.priority and asks.service_level < level and asks.need <= gpus
        for key, asks in state.queues[job.project].heads()
    )
