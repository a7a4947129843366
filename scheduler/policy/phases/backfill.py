"""Backfill: lend GPUs of a delayed reservation to jobs that end before, by their time limits (DESIGN §3)."""

from __future__ import annotations

import math
from itertools import islice

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.phases.precedence import delayed_reservations
from springtide.scheduler.policy.placement import gang_placement
from springtide.scheduler.policy.plan_builder import PlanBuilder, Proposal
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.nodes import workers_of

MAX_NODES = 64
"""Maximum number of waiting jobs tried, those with the shortest time limits first."""


def backfill(builder: PlanBuilder) -> None:
    """Start jobs on idle GPUs that are reserved for a job whose other GPUs are still in use."""
    state = builder.state
    for job in delayed_reservations(state):
        if state.time_limited and job.id not in builder.decided:
            holders = (state.jobs[job_id] for job_id in state.pool.holders(job.reserved))
            all_free_at = max(holder.latest_end(builder.now) for holder in holders)
            idle = _idle(state, job)
            if all_free_at < math.inf and idle:
                _lend(builder, job, idle, all_free_at)


def _idle(state: ClusterState, job: Job) -> Placement:
    """Return the reserved GPUs that no attempt holds."""
    idle = ((node, mask & node.allocatable & ~node.held) for node, mask in state.pool.known(job.reserved))
    return workers_of((node, mask) for node, mask in idle if mask)


def _lend(builder: PlanBuilder, reserving: Job, idle: Placement, until: float) -> None:
    state, pool = builder.state, builder.state.pool
    shortest = [state.jobs[job_id] for _, _, job_id in islice(state.time_limited, MAX_NODES)]
    for leaf, job in builder.undecided(shortest):
        need = job.gpus * job.min_workers
        if job.latest_end(builder.now) > until or not admission.may_start(leaf, job, need):
            continue
        if builder.reclaims_too_much(leaf, need):
            continue
        with pool.undo.trial():
            pool.unreserve(idle)
            parts = gang_placement.place_gang(pool, job, job.min_workers)
        if parts is not None:
            builder.accept(leaf, Proposal(job, workers_of(parts), reasons.lent(job, reserving)))
            idle = _idle(state, reserving)
