"""Promises a start to a job that has waited for long although its project is entitled to it.

GPUs are set aside for it while others still run there; as these end, they are not given to anybody else. One
promise is open at a time, for GPUs that wait for the last of them are idle.
"""

from __future__ import annotations

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy import gates, placement, reasons
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.placement import Parts
from springtide.scheduler.policy.pool import Place, bits, workers_of
from springtide.scheduler.policy.state import State, waiting_since
from springtide.scheduler.policy.tree import Seat
from springtide.scheduler.policy.turns import Turns
from springtide.scheduler.policy.walk import Claim, Walk

PROMISE_AFTER = 2 * 3600.0
"""Seconds a job waits for room to come by itself before it is promised a start.

Reclaiming serves nearly all at once; who waits this long needs GPUs together that never get free together.
"""


def is_promise(state: State, job: Job) -> bool:
    """Whether what is reserved for the job is held by jobs that nobody asked to stop."""
    return any(job_id not in state.pausing for job_id in state.pool.holders(job.reserved))


def promise(desk: Desk) -> None:
    """Set GPUs aside for the first job that has waited too long, unless there is such a promise already."""
    state = desk.state
    if any(is_promise(state, job) for job in state.awaiting.values()):
        return
    walk = Walk(desk, lambda leaf, shape: leaf.claimed + shape.need <= leaf.entitled)
    leaves = [leaf for leaf in state.tree.leaves.values() if _impatient(desk, leaf)]
    turns: Turns[Claim] = Turns(state.tree, leaves, walk.head)
    while (turn := turns.top()) is not None:
        leaf, claim = turn
        if _overdue(desk, claim.job) and gates.refusal(leaf, claim.job, claim.need) is None:
            placed = _drain(desk, claim.job)
            if placed is not None:
                holders = [state.jobs[job_id] for job_id in state.pool.holders(placed)]
                desk.reserve(leaf, claim.job, placed, reasons.promised(claim.job, holders))
                return
        walk.give_up(leaf, claim)
        turns.refresh(leaf)


def _impatient(desk: Desk, leaf: Seat) -> bool:
    lines = desk.state.lines[leaf.name]
    if not lines.by_shape or leaf.claimed + lines.smallest > leaf.entitled:
        return False
    return any(_overdue(desk, desk.state.jobs[turn[3]]) for turn, _ in lines.heads())


def _overdue(desk: Desk, job: Job) -> bool:
    """Whether the job has waited too long; if not yet, that is a time to look again."""
    at = waiting_since(job) + PROMISE_AFTER
    if at > desk.now:
        desk.wake.append(at)
    return at <= desk.now


def _drain(desk: Desk, job: Job) -> Placement | None:
    """GPUs that the job can have once those who hold them have ended: where the fewest are held."""
    state, pool = desk.state, desk.state.pool
    mark = pool.mark()
    free = {place.rank: place.free for place in pool.places}
    within = pool.mask_for(job.gpu_types)
    parts: Parts | None = None
    for place in sorted((pool.places[rank] for rank in bits(within)), key=lambda each: _cost(state, each)):
        if (place.usable & ~place.reserved).bit_count() < job.gpus:
            continue
        for job_id in sorted(place.jobs.keys() - desk.fixed):
            pool.let_go(job_id, state.jobs[job_id].placement)
        parts = placement.find(pool, job, job.min_workers)
        if parts is not None:
            break
    drained = {place.rank: place.free for place, _ in parts or ()}
    pool.back_to(mark)
    return None if parts is None else workers_of(_free_first(parts, free, drained))


def _cost(state: State, place: Place) -> tuple[int, int, int]:
    firm = sum(mask.bit_count() for job_id, mask in place.jobs.items() if not state.jobs[job_id].preemptible)
    return (firm, -place.free.bit_count(), place.rank)


def _free_first(parts: Parts, free: dict[int, int], drained: dict[int, int]) -> Parts:
    """The same workers on the same nodes, on GPUs that are free already as far as links do not matter."""
    left = drained
    better: Parts = []
    for place, mask in parts:
        if place.islands:
            better.append((place, mask))
            continue
        rest = left[place.rank]
        chosen = 0
        for index in sorted(bits(rest), key=lambda each: (not free[place.rank] >> each & 1, each)):
            if chosen.bit_count() < mask.bit_count():
                chosen |= 1 << index
        left[place.rank] = rest & ~chosen
        better.append((place, chosen))
    return better
