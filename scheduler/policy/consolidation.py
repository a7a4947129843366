"""Makes a job fit by moving others to where there is room for them already."""

from __future__ import annotations

from collections.abc import Iterator

from springtide.scheduler.model import Job, Phase, Placement
from springtide.scheduler.policy import placement
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.placement import Parts
from springtide.scheduler.policy.pool import Place, bits, workers_of

MOVED_AT_MOST = 2
"""GPUs that may be moved, as a multiple of the GPUs they make room for: moving costs their jobs a restart."""

LOOK_AT = 16
"""How many nodes are compared as the one to be cleared. More finds cheaper moves, and takes longer."""

Moves = list[tuple[Job, Placement]]


def find_moves(desk: Desk, job: Job) -> tuple[Parts, Moves] | None:
    """Where the job goes, and where those go that make room for it; None if there is no such way.

    The pool is as before afterwards. Only jobs that sit on one node are moved.
    """
    pool = desk.state.pool
    mark = pool.mark()
    targets = 0
    moves: Moves = []
    parts: Parts | None = None
    budget = MOVED_AT_MOST * job.gpus * job.min_workers
    while (parts := placement.find(pool, job, job.min_workers)) is None:
        cleared = _clear_one(desk, job, targets)
        if cleared is None:
            break
        place, moved = cleared
        targets |= 1 << place.rank
        for each, new in moved:
            pool.let_go(each.id, each.placement)
            pool.reserve(new)
            budget -= each.held_gpus
        moves.extend(moved)
        if budget < 0:
            break
    pool.back_to(mark)
    return None if parts is None or budget < 0 else (parts, moves)


def _clear_one(desk: Desk, job: Job, targets: int) -> tuple[Place, Moves] | None:
    """The node that is cleared for one more worker at the least cost, and how."""
    best: tuple[tuple[object, ...], Place, Moves] | None = None
    for place in _candidates(desk, job, targets):
        short = job.gpus - place.free.bit_count() % job.gpus
        chosen = _choose(desk, place, short)
        if chosen is None:
            continue
        moves = _land(desk, chosen, targets | 1 << place.rank)
        if moves is not None:
            cost = (sum(each.held_gpus for each in chosen), [_order(each) for each in chosen], place.rank)
            if best is None or cost < best[0]:
                best = (cost, place, moves)
    return (best[1], best[2]) if best is not None else None


def _candidates(desk: Desk, job: Job, targets: int) -> Iterator[Place]:
    """Nodes that lack the fewest GPUs, first."""
    pool = desk.state.pool
    within = pool.mask_for(job.gpu_types) & ~targets
    looked = 0
    for count in sorted(range(len(pool.buckets)), key=lambda each: (job.gpus - each % job.gpus, each)):
        for rank in bits(pool.buckets[count] & within):
            place = pool.places[rank]
            if count // job.gpus * job.gpus + job.gpus <= place.usable.bit_count():
                yield place
                looked += 1
            if looked >= LOOK_AT:
                return


def _choose(desk: Desk, place: Place, short: int) -> list[Job] | None:
    """Jobs on the node that hold at least so many GPUs together: the closest fits first."""
    movable = [job for job_id in place.jobs if _movable(desk, job := desk.state.jobs[job_id], place)]
    chosen: list[Job] = []
    while short > 0:
        if not movable:
            return None
        missing = short
        best = min(
            movable, key=lambda each: (each.held_gpus < missing, abs(each.held_gpus - missing), _order(each))
        )
        movable.remove(best)
        chosen.append(best)
        short -= best.held_gpus
    return chosen


def _movable(desk: Desk, job: Job, place: Place) -> bool:
    return (
        job.phase is Phase.RUNNING
        and job.preemptible
        and job.id not in desk.fixed
        and all(worker.node == place.name for worker in job.placement)
        and job.project in desk.state.tree.leaves
        and desk.settled(job)
    )


def _order(job: Job) -> tuple[int, float, float, str]:
    """Which job is moved rather than another: lower priority, then more recent."""
    return (job.priority, -(job.started or 0.0), -job.submitted, job.id)


def _land(desk: Desk, chosen: list[Job], targets: int) -> Moves | None:
    """Room elsewhere for all of them, the largest first."""
    pool = desk.state.pool
    mark = pool.mark()
    moves: Moves = []
    for job in sorted(chosen, key=lambda each: (-each.held_gpus, each.id)):
        parts = placement.find(pool, job, len(job.placement), pool.all & ~targets)
        if parts is None:
            pool.back_to(mark)
            return None
        new = workers_of(parts)
        pool.reserve(new)
        moves.append((job, new))
    pool.back_to(mark)
    return moves
