"""Makes a job fit by moving others to where there is room: room that is there already, or that is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from springtide.scheduler.model import Job, Phase, Placement
from springtide.scheduler.policy import gates, placement
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.placement import Parts
from springtide.scheduler.policy.pool import Place, bits, mask_of, workers_of
from springtide.scheduler.policy.victims import Search

MOVED_AT_MOST = 2
"""GPUs that may be moved, as a multiple of the GPUs they make room for: moving costs their jobs a restart."""

LOOK_AT = 16
"""How many nodes are compared as the one to be cleared. More finds cheaper moves, and takes longer."""

TAKEN_AT_MOST = 256
"""From how many jobs at most GPUs are taken as room for those that are moved."""

CLOSELY = 8
"""After so many of them it is not tried after each one any more, but each time there are twice as many."""


class Moved(NamedTuple):
    """A running job of which some workers leave their GPUs for others."""

    job: Job
    taken: Placement
    landed: Placement

    @property
    def whole(self) -> Placement:
        """All its workers once it has moved."""
        return placement.ranked(_without(self.job.placement, self.taken) + self.landed)


Found = tuple[Parts, list[Moved]]
"""Where the job goes, and who goes where to make room for it."""


def find_moves(desk: Desk, job: Job) -> Found | None:
    """How the job fits once others have moved to where there is room; None if there is no such way.

    The pool is as before afterwards.
    """
    pool = desk.state.pool
    mark = pool.mark()
    targets = 0
    moves: list[Moved] = []
    parts: Parts | None = None
    budget = MOVED_AT_MOST * job.gpus * job.min_workers
    while (parts := placement.find(pool, job, job.min_workers)) is None:
        cleared = _clear_one(desk, job, targets, {each.job.id for each in moves})
        if cleared is None:
            break
        place, moved = cleared
        targets |= 1 << place.rank
        for each in moved:
            pool.let_go(each.job.id, each.taken)
            pool.reserve(each.landed)
            budget -= each.job.held_gpus
        moves.extend(moved)
        if budget < 0:
            break
    pool.back_to(mark)
    return None if parts is None or budget < 0 else (parts, _of_use(moves, parts))


def _of_use(moves: list[Moved], parts: Parts) -> list[Moved]:
    """The moves that make room where the job goes: nodes may have been cleared where it does not go after all."""
    used: dict[str, int] = {}
    for place, mask in parts:
        used[place.name] = used.get(place.name, 0) | mask
    return [
        each for each in moves if any(mask_of(worker.gpus) & used.get(worker.node, 0) for worker in each.taken)
    ]


def take_and_move(search: Search) -> Found | None:
    """How the job fits once others have moved to what is taken from those who may have to give way.

    What is taken, and not needed, is given back. The caller rolls back if nothing is found.
    """
    desk, job, need = search.desk, search.job, search.need
    taken, next_try = 0, 1
    while taken < TAKEN_AT_MOST and search.take_cheapest():
        taken += 1
        if taken < next_try or desk.state.pool.free < need or gates.over_limit(search.leaf, need) is not None:
            continue
        found = find_moves(desk, job)
        if found is not None:
            parts, moves = found
            search.spare((*workers_of(parts), *(worker for each in moves for worker in each.landed)))
            return found
        next_try = taken + max(1, taken // CLOSELY * CLOSELY)
    return None


def _clear_one(desk: Desk, job: Job, targets: int, moved: set[str]) -> tuple[Place, list[Moved]] | None:
    """The node that is cleared for one more worker at the least cost, and how."""
    best: tuple[tuple[object, ...], Place, list[Moved]] | None = None
    for place in _candidates(desk, job, targets, LOOK_AT):
        short = job.gpus - place.free.bit_count() % job.gpus
        movable = [
            other
            for job_id in place.jobs
            if job_id not in moved and _movable(desk, other := desk.state.jobs[job_id], place)
        ]
        moves = _clear(desk, place, short, movable, targets | 1 << place.rank)
        if moves is not None:
            jobs = [each.job for each in moves]
            cost = (sum(each.held_gpus for each in jobs), [_order(each) for each in jobs], place.rank)
            if best is None or cost < best[0]:
                best = (cost, place, moves)
    return (best[1], best[2]) if best is not None else None


def worth_clearing(desk: Desk, job: Job) -> tuple[int, ...]:
    """All nodes that may be looked at as ones to be cleared for the job."""
    return tuple(place.rank for place in _candidates(desk, job, 0, LOOK_AT * job.min_workers))


def _candidates(desk: Desk, job: Job, targets: int, most: int) -> Iterator[Place]:
    """At most so many nodes, those that lack the fewest GPUs first."""
    pool = desk.state.pool
    within = pool.mask_for(job.gpu_types) & ~targets
    looked = 0
    for count in sorted(range(len(pool.buckets)), key=lambda each: (job.gpus - each % job.gpus, each)):
        for rank in bits(pool.buckets[count] & within):
            place = pool.places[rank]
            if count // job.gpus * job.gpus + job.gpus <= place.usable.bit_count():
                yield place
                looked += 1
            if looked >= most:
                return


def _clear(desk: Desk, place: Place, short: int, movable: list[Job], targets: int) -> list[Moved] | None:
    """Moves that free so many GPUs of the node; who finds no room elsewhere stays where it is."""
    while (chosen := _choose(place, short, movable)) is not None:
        moves = _land(desk, chosen, place, targets)
        if not isinstance(moves, Job):
            return moves
        movable = [job for job in movable if job is not moves]
    return None


def _choose(place: Place, short: int, movable: list[Job]) -> list[Job] | None:
    """Jobs on the node that hold at least so many GPUs of it together: the closest fits first."""
    left = {job.id: (_here(job, place), job) for job in movable}
    chosen: list[Job] = []
    while short > 0:
        if not left:
            return None
        missing = short
        here, best = min(
            left.values(), key=lambda each: (each[0] < missing, abs(each[0] - missing), _order(each[1]))
        )
        del left[best.id]
        chosen.append(best)
        short -= here
    return chosen


def _here(job: Job, place: Place) -> int:
    """How many GPUs of the node get free when the job leaves it."""
    return (place.jobs[job.id] & place.usable & ~place.reserved).bit_count()


def _movable(desk: Desk, job: Job, place: Place) -> bool:
    return (
        job.phase is Phase.RUNNING
        and job.preemptible
        and job.id not in desk.fixed
        and job.id not in desk.left
        and job.project in desk.state.tree.leaves
        and _here(job, place) > 0
        and desk.state.pool.keepable(tuple(worker for worker in job.placement if worker.node != place.name))
        and desk.settled(job)
    )


def _order(job: Job) -> tuple[int, float, float, str]:
    """Which job is moved rather than another: lower priority, then more recent."""
    return (job.priority, -(job.started or 0.0), -job.submitted, job.id)


def _land(desk: Desk, chosen: list[Job], place: Place, targets: int) -> list[Moved] | Job:
    """Room elsewhere for what they have on the node, the largest first; or the one that finds none."""
    pool = desk.state.pool
    mark = pool.mark()
    moves: list[Moved] = []
    for job in sorted(chosen, key=lambda each: (-each.held_gpus, each.id)):
        taken = tuple(worker for worker in job.placement if worker.node == place.name)
        stays = _without(job.placement, taken)
        parts = (
            placement.find_beside(pool, job, stays, len(taken), pool.all & ~targets)
            if stays
            else placement.find(pool, job, len(taken), pool.all & ~targets)
        )
        if parts is None:
            pool.back_to(mark)
            return job
        landed = workers_of(parts, len(stays))
        pool.reserve(landed)
        moves.append(Moved(job, taken, landed))
    pool.back_to(mark)
    return moves


def _without(workers: Placement, taken: Placement) -> Placement:
    return tuple(worker for worker in workers if worker not in taken)
