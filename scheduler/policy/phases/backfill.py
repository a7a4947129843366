"""Backfill: lend GPUs of a delayed reservation to jobs that end before, by their time limits (DESIGN §3)."""

from __future__ import annotations

import math
from itertools import islice

from springtide.scheduler.model import Job, Placement, Worker
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.phases.precedence import delayed_reservations
from springtide.scheduler.policy.placement import gang_placement
from springtide.scheduler.policy.plan_builder import PlanBuilder, Proposal
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.nodes import bits, mask_of, workers_of

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
    found: list[Worker] = []
    for worker in job.reserved:
        node = state.pool.by_name[worker.node]
        free = mask_of(worker.gpus) & node.allocatable & ~node.held
        if free:
            found.append(Worker(len(found), worker.node, tuple(bits(free))))
    return tuple(found)


def _lend(builder: PlanBuilder, reserving: Job, idle: Placement, until: float) -> None:
    state, pool = builder.state, builder.state.pool
    for _, _, job_id in list(islice(state.time_limited, MAX_NODES)):
        job = state.jobs[job_id]
        leaf = state.tree.leaves.get(job.project)
        if leaf is None or job_id in builder.decided or job.latest_end(builder.now) > until:
            continue
        need = job.gpus * job.min_workers
        if admission.refusal(leaf, job, need) is not None or not admission.held_within_limit(leaf, need):
            continue
        with pool.undo.trial():
            pool.unreserve(idle)
            parts = gang_placement.place_gang(pool, job, job.min_workers)
        if parts is not None:
            builder.accept(leaf, Proposal(job, workers_of(parts), reasons.lent(job, reserving)))
            idle = _idle(state, reserving)
