"""Make a job fit by moving others to free GPUs within the same plan (docs/policy.md, How a plan is made)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import inf

from msgspec.structs import replace

from springtide.scheduler.model import Job, Placement, Worker
from springtide.scheduler.policy import gang_placement
from springtide.scheduler.policy.plan_builder import PlanBuilder, Proposal, Relocation
from springtide.scheduler.policy.state.nodes import NodePool, NodeState, gpus_of, mask_of, workers_of
from springtide.scheduler.policy.state.running_jobs import start_step

MAX_MOVED_FACTOR = 2
"""Maximum number of GPUs moved, as a multiple of the GPUs needed: every moved job restarts."""

MAX_NODES = 16
"""Maximum number of nodes compared as the next one to clear; more gives cheaper moves and takes longer."""


class MoveSearch:
    """A search for jobs to move, so that one job fits. It leaves the state as it was.

    A job that gives up workers for another one is not moved. ``retry_at`` is the earliest end of a minimum run
    time that prevented a move, in seconds.
    """

    def __init__(self, builder: PlanBuilder, job: Job) -> None:
        self.retry_at = inf
        self._builder = builder
        self._state = builder.state
        self._pool = builder.state.pool
        self._job = job

    def solve(self) -> Proposal | None:
        """Return the job's placement and the moves that it needs, perhaps none; None without a solution."""
        pool, job = self._pool, self._job
        cleared = 0
        moves: list[Relocation] = []
        budget = MAX_MOVED_FACTOR * job.need
        with pool.undo.trial():
            while (allocation := gang_placement.place_gang(pool, job, job.min_workers)) is None and budget >= 0:
                option = self._cheapest_to_clear(cleared, {move.job.id for move in moves})
                if option is None:
                    return None
                node, moved = option
                cleared |= 1 << node.index
                for move in moved:
                    pool.vacate(move.job.id, move.taken)
                    pool.reserve(move.landed)
                    budget -= move.job.held_gpus
                moves.extend(moved)
        if allocation is None or budget < 0:
            return None
        placement = workers_of(allocation)
        return Proposal(job, placement, later=True, relocations=_needed(moves, placement))

    def _cheapest_to_clear(self, cleared: int, moved: set[str]) -> tuple[NodeState, list[Relocation]] | None:
        """Return the node where one more worker fits after the cheapest moves, and these moves."""
        best: tuple[tuple[object, ...], NodeState, list[Relocation]] | None = None
        for node in islice(_clearable(self._pool, self._job, cleared), MAX_NODES):
            short = self._job.gpus - node.free.bit_count() % self._job.gpus
            jobs = [self._with_workers_left(job_id) for job_id in node.jobs if job_id not in moved]
            movable = [job for job in jobs if self._consider(job, node)]
            moves = self._clear(node, short, movable, cleared | 1 << node.index)
            if moves is not None:
                gpus = sum(move.job.held_gpus for move in moves)
                cost = (gpus, [_order(move.job) for move in moves], node.index)
                if best is None or cost < best[0]:
                    best = (cost, node, moves)
        return None if best is None else best[1:]

    def _with_workers_left(self, job_id: str) -> Job:
        """Return a running job with the workers that it keeps."""
        job = self._state.jobs[job_id]
        left = self._builder.workers_planned(job)
        return job if left is job.placement else replace(job, placement=left)

    def _consider(self, job: Job, node: NodeState) -> bool:
        """Return whether the job can be moved; if only its minimum run time prevents it, keep its end."""
        stay = tuple(worker for worker in job.placement if worker.node != node.name)
        may_move = (
            self._builder.may_stop(job) and not self._builder.is_shrunk(job) and self._builder.may_restart(job)
        )
        if not may_move or not _gpus_on(job, node) or not self._pool.can_stay(job, stay):
            return False
        protected = self._builder.protected_until(job)
        if protected > self._builder.now:
            self.retry_at = min(self.retry_at, protected)
            return False
        return True

    def _clear(self, node: NodeState, short: int, movable: list[Job], cleared: int) -> list[Relocation] | None:
        """Return moves that free ``short`` GPUs of the node, the job that fits most closely first.

        A job that does not fit elsewhere stays.
        """
        moves: list[Relocation] = []

        def closeness(job: Job) -> tuple[object, ...]:
            here = _gpus_on(job, node)
            return (here < short, abs(here - short), _order(job))

        with self._pool.undo.trial():
            while short > 0 and movable:
                job = min(movable, key=closeness)
                movable.remove(job)
                relocation = self._relocate(job, node, self._pool.all & ~cleared, short)
                if relocation is not None:
                    moves.append(relocation)
                    self._pool.reserve(relocation.landed)
                    short -= _gpus_on(relocation.job, node, relocation.taken)
        return None if short > 0 else moves

    def _relocate(self, job: Job, node: NodeState, within: int, short: int) -> Relocation | None:
        """Find GPUs elsewhere for the workers on the node, or for all workers in another required domain.

        If not all of them fit, move only as many as free the ``short`` GPUs of the node.
        """
        here = [worker for worker in job.placement if worker.node == node.name]
        if len(here) < len(job.placement):
            found = self._relocate_workers(job, here, within)
            if found is not None:
                return found
        if len(here) == len(job.placement) or job.require in self._pool.levels:
            gang = gang_placement.place_gang(self._pool, job, len(job.placement), within)
            if gang is not None:
                return Relocation(job, job.placement, workers_of(gang))
        count = -(-short // job.gpus)
        fewer = here[-count:] if count < len(here) else []
        return self._relocate_workers(job, fewer, within) if fewer else None

    def _relocate_workers(self, job: Job, taken: list[Worker], within: int) -> Relocation | None:
        """Find GPUs elsewhere for some workers of a job, if the others can stay."""
        stay = tuple(worker for worker in job.placement if worker not in taken)
        if not self._pool.can_stay(job, stay):
            return None
        more = gang_placement.place_more(self._pool, job, stay, len(taken), within)
        return None if more is None else Relocation(job, tuple(taken), workers_of(more, len(stay)))


def _needed(moves: list[Relocation], placement: Placement) -> tuple[Relocation, ...]:
    """Return the moves that free GPUs of the placement; others cleared nodes in vain."""
    used = gpus_of(placement)
    return tuple(move for move in moves if not used.isdisjoint(gpus_of(move.taken)))


def _clearable(pool: NodePool, job: Job, cleared: int) -> Iterator[NodeState]:
    """Yield the nodes that may hold one more worker, those that lack the fewest GPUs for it first."""
    within = pool.suitable(job.gpu_types, job.per_gpu, job.avoid) & ~cleared
    counts = sorted(range(len(pool.buckets)), key=lambda free: (job.gpus - free % job.gpus, free))
    for node in pool.with_free(counts, within):
        if (node.free.bit_count() // job.gpus + 1) * job.gpus <= node.allocatable.bit_count():
            yield node


def _gpus_on(job: Job, node: NodeState, workers: Placement | None = None) -> int:
    """Return how many GPUs of the node become free when the job, or some of its workers, leave it."""
    there = () if workers is None else (worker for worker in workers if worker.node == node.name)
    leaving = node.jobs[job.id] if workers is None else mask_of(gpu for worker in there for gpu in worker.gpus)
    return (leaving & node.allocatable & ~node.reserved).bit_count()


def _order(job: Job) -> tuple[int, float, float, str]:
    """Return the order in which jobs are moved: lower priority, then more recent start, in steps."""
    return (job.priority, -start_step(job), -job.submitted, job.id)
