"""Promises a start to a job that has waited for long although its project is entitled to it.

GPUs are set aside for it while others still run there; as these end, they are not given to anybody else. One
promise is open at a time, for GPUs that wait for the last of them are idle.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from springtide.scheduler.model import Drop, Job, Placement
from springtide.scheduler.policy import gates, placement, reasons
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.lines import Shape, waiting_since
from springtide.scheduler.policy.placement import Parts
from springtide.scheduler.policy.pool import Place, bits, workers_of
from springtide.scheduler.policy.state import State
from springtide.scheduler.policy.tree import Seat
from springtide.scheduler.policy.turns import Turns
from springtide.scheduler.policy.walk import Walk

PROMISE_AFTER = 3600.0
"""Seconds a job waits for room to come by itself before it is promised a start.

Reclaiming serves nearly all at once; who waits this long needs GPUs together that never get free together.
"""

LOOK_AT = 64
"""How many nodes are considered for each worker of a job that is promised a start."""


def is_promise(state: State, job: Job) -> bool:
    """Whether what is reserved for the job is held by jobs that nobody asked to stop."""
    return any(job_id not in state.pausing for job_id in state.pool.holders(job.reserved))


def promises(state: State) -> list[Job]:
    """The jobs that were promised a start and still wait for it."""
    return sorted((job for job in state.awaiting.values() if is_promise(state, job)), key=lambda each: each.id)


def guarantee_waits(desk: Desk) -> bool:
    """Whether somebody still waits for what is within the quota: then nobody is to get what is beyond it.

    What is only promised to a project does not make up for what it waits for. A quota that those above it cannot
    honour just now does not count.
    """
    state = desk.state
    promised = Counter[str]()
    for job in promises(state):
        promised[job.project] += len(job.reserved) * job.gpus

    def room(leaf: Seat) -> int:
        return leaf.quota - leaf.claimed + promised.get(leaf.name, 0)

    def owed(leaf: Seat, shape: Shape) -> bool:
        least = shape.need - promised.get(leaf.name, 0)
        return shape.need <= room(leaf) and gates.within_entitlement(leaf, least)

    walk = Walk(desk, owed)
    return any(
        lines.by_shape and lines.smallest <= room(leaf) and walk.head(leaf) is not None
        for leaf, lines in ((leaf, state.lines[name]) for name, leaf in state.tree.leaves.items())
    )


def outranked(state: State, job: Job) -> bool:
    """Whether a more urgent job of the same project waits: it would take the GPUs away again."""
    leaf = state.tree.leaves[job.project]
    own = job.held_gpus + sum(len(worker.gpus) for worker in job.reserved)
    for turn, shape in state.lines[job.project].heads():
        if -turn[0] <= job.priority:
            return False
        if _may_ever_start(state, leaf, shape, own):
            return True
    return False


def _may_ever_start(state: State, leaf: Seat, shape: Shape, instead: int) -> bool:
    """Whether jobs of this shape could have GPUs if others of the project gave up so many."""
    if state.pool.capacity(shape.where.gpus, shape.where.gpu_types) < shape.where.min_workers:
        return False
    more = shape.need - instead
    firm = not shape.preemptible
    return all(
        seat.claimed + more <= seat.limit and (not firm or seat.firm + shape.need <= seat.quota)
        for seat in leaf.path
    )


def promise(desk: Desk) -> None:
    """Set GPUs aside for the first job that has waited too long, unless there is such a promise already."""
    state = desk.state
    open_promises = promises(state)
    owed = guarantee_waits(desk)
    for job in open_promises:
        leaf = state.tree.leaves.get(job.project)
        borrows = leaf is not None and not gates.within_quota(leaf, 0)
        if job.id not in desk.fixed and (outranked(state, job) or (borrows and owed)):
            desk.decide(job, Drop(job.id, reasons.refused_meanwhile(job)))
    if open_promises:
        return

    def hopeful(leaf: Seat, shape: Shape) -> bool:
        return gates.within_quota(leaf, shape.need) if owed else gates.within_entitlement(leaf, shape.need)

    walk = Walk(desk, hopeful)
    leaves = [leaf for leaf in state.tree.leaves.values() if _impatient(desk, leaf)]
    turns = Turns(leaves, walk.head)
    while (turn := turns.top()) is not None:
        leaf, claim = turn
        refused = outranked(state, claim.job) or gates.refusal(leaf, claim.job, claim.need) is not None
        if _overdue(desk, claim.job) and not refused:
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
    free: dict[int, int] = {}
    parts: Parts | None = None
    for place in _candidates(state, job):
        free[place.rank] = place.free
        if (place.usable & ~place.reserved).bit_count() < job.gpus:
            continue
        for job_id in sorted(place.jobs.keys() - desk.fixed - desk.shrunk.keys()):
            here = tuple(worker for worker in state.jobs[job_id].placement if worker.node == place.name)
            pool.let_go(job_id, here)
        parts = placement.find(pool, job, job.min_workers)
        if parts is not None:
            break
    for place, _ in parts or ():
        free.setdefault(place.rank, place.free)
    drained = {place.rank: place.free for place, _ in parts or ()}
    pool.back_to(mark)
    return None if parts is None else workers_of(_free_first(parts, free, drained))


def _candidates(state: State, job: Job) -> list[Place]:
    """Nodes with many free GPUs, those where the fewest are held by jobs that are not preemptible first."""
    pool = state.pool
    within = pool.mask_for(job.gpu_types)
    by_room = (
        pool.places[rank]
        for count in range(len(pool.buckets) - 1, -1, -1)
        for rank in bits(pool.buckets[count] & within)
    )
    return sorted(islice(by_room, LOOK_AT * job.min_workers), key=lambda place: _cost(state, place))


def _cost(state: State, place: Place) -> tuple[int, int, int]:
    firm = sum(mask.bit_count() for job_id, mask in place.jobs.items() if not state.jobs[job_id].preemptible)
    return (firm, -place.free.bit_count(), place.rank)


def _free_first(parts: Parts, free: dict[int, int], drained: dict[int, int]) -> Parts:
    """The same workers on the same nodes, on GPUs that are free already as far as links do not matter."""
    left = drained
    better: Parts = []
    for place, mask in parts:
        if place.groups:
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
