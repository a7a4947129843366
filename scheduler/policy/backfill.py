"""Lends GPUs that are set aside for a job to others that end before it can start anyway: by their time limits."""

from __future__ import annotations

import math
from itertools import islice

from springtide.scheduler.model import Job, Placement, Worker
from springtide.scheduler.policy import gates, placement, reasons
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.pool import bits, mask_of, workers_of
from springtide.scheduler.policy.promising import is_promise
from springtide.scheduler.policy.state import State

LOOK_AT = 64
"""How many waiting jobs are tried, those with the shortest time limits first: they are the least in the way."""


def backfill(desk: Desk) -> None:
    """Start jobs on GPUs that are promised to another and idle until its last ones are free."""
    state = desk.state
    for job in sorted(state.awaiting.values(), key=lambda each: each.id):
        if state.limited and job.id not in desk.fixed and is_promise(state, job):
            until = _promised_start(state, job, desk.now)
            idle = _idle(state, job)
            if until < math.inf and idle:
                _lend(desk, job, idle, until)


def _promised_start(state: State, job: Job, now: float) -> float:
    """When all GPUs promised to the job are free at the latest; never if a job without time limit is on one."""
    return max(state.jobs[holder].latest_end(now) for holder in state.pool.holders(job.reserved))


def _idle(state: State, job: Job) -> Placement:
    """The promised GPUs that nobody holds."""
    found: list[Worker] = []
    for worker in job.reserved:
        place = state.pool.by_name[worker.node]
        free = mask_of(worker.gpus) & place.usable & ~place.held
        if free:
            found.append(Worker(len(found), worker.node, tuple(bits(free))))
    return tuple(found)


def _lend(desk: Desk, promised: Job, idle: Placement, until: float) -> None:
    state, pool = desk.state, desk.state.pool
    for _, _, job_id in list(islice(state.limited, LOOK_AT)):
        job = state.jobs[job_id]
        leaf = state.tree.leaves.get(job.project)
        if leaf is None or job_id in desk.fixed or job.latest_end(desk.now) > until:
            continue
        need = job.gpus * job.min_workers
        if gates.refusal(leaf, job, need) is not None or not gates.held_within_limit(leaf, need):
            continue
        mark = pool.mark()
        pool.unreserve(idle)
        parts = placement.find(pool, job, job.min_workers)
        pool.back_to(mark)
        if parts is not None:
            desk.start(leaf, job, workers_of(parts), reasons.lent(job, promised))
            idle = _idle(state, promised)
