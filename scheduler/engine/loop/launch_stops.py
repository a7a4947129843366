"""Launches stop for a reason that kept several jobs from starting; probes find out when it has gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from springtide.scheduler.backoff import Backoff, Jitter
from springtide.scheduler.engine.loop.start_checks import Preview
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.blocks import (
    STOPS_AFTER,
    LaunchStop,
    concerns,
    kept_by,
    waits,
    withheld_by,
    words_of,
)
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.executors.base import Executor, ExecutorError
from springtide.scheduler.model import Block, Node, Placement, Worker
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobRecord

logger = logging.getLogger(__name__)
INTERVAL = 0.5
"""Interval at which jobs that are newly withheld are looked for, in seconds."""
FIRST_DELAY = 5.0
"""Time until the same kind of job is asked about again, in seconds; doubled after each refusal."""
LONGEST_DELAY = 60.0
"""The longest of these times: for as long a pool may be idle after its block has gone."""
MOST = 32
"""Maximum number of kinds of jobs that are asked about in a row."""


def follow(transaction: Transaction) -> None:
    """Withhold the jobs concerned by a block that has kept several others, and offer them again after it.

    A start of a blocked job shows that the block is gone, unless the executor knows for each job.
    """
    known, changed = transaction.state.blocks, transaction.jobs
    before = {job_id: transaction.state.jobs.get(job_id) for job_id in changed}
    touched = {
        block
        for job in (*changed.values(), *before.values())
        if job is not None
        for block in (kept_by(job), withheld_by(job))
        if block is not None
    }
    for block in touched | set(known.stopped()):
        _end_if_gone(transaction, block)
        _follow_block(transaction, block)


def _end_if_gone(transaction: Transaction, block: Block) -> None:
    """Let a block that only a start can disprove keep nothing any more, once a job that it kept has started."""
    if block.checkable:
        return
    for job_id, job in list(transaction.jobs.items()):
        was = transaction.state.jobs.get(job_id)
        if was is not None and kept_by(was) == block and job.live is not None and job.live.started is not None:
            for kept in _kept(transaction, block):
                transaction.put_job(lifecycle.offer_again(kept, block))
            return


def _follow_block(transaction: Transaction, block: Block) -> None:
    known = transaction.state.blocks
    kept = _kept(transaction, block)
    if len(kept) < STOPS_AFTER:
        withheld = _jobs(transaction, known.withheld(block), withheld_by, block)
        for job in withheld:
            transaction.put_job(lifecycle.offer_again(job, block))
        if withheld:
            logger.warning("Jobs are launched again that were kept by: %s", block.name)
        return
    begins = len(known.kept(block)) < STOPS_AFTER and all(each.block != block for each in transaction.launch_stops)
    candidates = {**(transaction.state.jobs if begins else {}), **transaction.jobs}
    detail = words_of(kept)
    for job in candidates.values():
        free = waits(job) and job.standing.withheld is None and not known.is_offered(block, job)
        if free and concerns(block, job):
            transaction.put_job(lifecycle.withhold(job, block, detail))
    if begins:
        logger.warning("Launching has stopped, because %d jobs could not be started: %s", len(kept), detail)
        transaction.launch_stops.append(LaunchStop(block, transaction.now, detail))


def _kept(transaction: Transaction, block: Block) -> list[JobRecord]:
    return _jobs(transaction, transaction.state.blocks.kept(block), kept_by, block)


def _jobs(
    transaction: Transaction, ids: Iterable[str], of: Callable[[JobRecord], Block | None], block: Block
) -> list[JobRecord]:
    """Return the jobs of a block, after the changes of the transaction: those of the state, and changed ones."""
    found = {job_id: transaction.job(job_id) for job_id in (*ids, *transaction.jobs)}
    return [job for job in found.values() if job is not None and of(job) == block]


Kind: TypeAlias = tuple[object, ...]
"""Jobs whose pods differ in nothing but their names, as far as the executor's answer can depend on it."""


@dataclass(slots=True)
class _Schedule:
    delays: Backoff
    due: float = 0.0

    def put_off(self, now: float) -> None:
        self.due = now + self.delays.next_delay()


@dataclass(slots=True)
class _Stop:
    """When the kinds of jobs are asked about, and when the next job tries, on the event loop's clock."""

    tries: _Schedule
    kinds: dict[Kind, _Schedule] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)


class LaunchProbes:
    """Offers withheld jobs again; ``change`` commits a change, as `Mailbox.request` does."""

    def __init__(
        self,
        executor: Executor,
        state: State,
        nodes: ObservedNodes,
        preview: Preview,
        change: Callable[[Callable[[Transaction], None]], Awaitable[None]],
        *,
        jitter: Jitter,
    ) -> None:
        self._executor = executor
        self._state = state
        self._nodes = nodes
        self._preview = preview
        self._change = change
        self._jitter = jitter
        self._stops: dict[Block, _Stop] = {}

    async def run(self) -> None:
        """Look after launch stops until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self.look()
            except Refusal as refused:
                logger.warning("Withheld jobs cannot be offered now: %s", refused)
            except Exception:
                logger.exception("Whether withheld jobs can start could not be found out.")

    async def look(self) -> None:
        """Make the due checks and trial starts. Raises `Refusal` if the result cannot be committed."""
        stopped = {block for block in self._state.blocks.stopped() if self._state.blocks.withheld(block)}
        for block in set(self._stops) - stopped:
            del self._stops[block]
            self._state.blocks.offered.pop(block, None)
        for block in stopped:
            stop = self._stops.setdefault(block, _Stop(self._schedule()))
            if not (block.checkable and self._executor.checks_starts) or not await self._ask(block, stop):
                await self._try(block, stop)

    def _schedule(self) -> _Schedule:
        return _Schedule(Backoff(FIRST_DELAY, LONGEST_DELAY, jitter=self._jitter))

    async def _ask(self, block: Block, stop: _Stop) -> bool:
        """Check the due kinds of jobs; return False if the executor does not know."""
        clock = asyncio.get_running_loop().time
        by_kind: dict[Kind, list[JobRecord]] = {}
        for job in self._withheld(block):
            by_kind.setdefault(kind_of(job), []).append(job)
        stop.kinds = {kind: stop.kinds.get(kind) or self._schedule() for kind in by_kind}
        due = [kind for kind in by_kind if stop.kinds[kind].due <= clock()]
        for kind in due[:MOST]:
            jobs = by_kind[kind]
            place = placement_of(jobs[0], self._nodes.train(self._state.drained))
            if place is None:
                stop.kinds[kind].put_off(clock())
                continue
            try:
                refused = await self._executor.check(self._preview(jobs[0], place))
            except ExecutorError as error:
                logger.info("Whether withheld jobs can start is not known: %s", error)
                return False
            stop.kinds[kind].put_off(clock())
            if refused is None:
                await self._offer(block, jobs)
        return True

    async def _try(self, block: Block, stop: _Stop) -> None:
        """Have one job try, the one that has tried least often and waits longest."""
        now = asyncio.get_running_loop().time()
        if not stop.tries.due:
            stop.tries.put_off(now)
        if stop.tries.due > now:
            return
        stop.tries.put_off(now)
        withheld = self._withheld(block)
        job = min(withheld, key=lambda each: (stop.turns.get(each.id, 0), each.spec.seq), default=None)
        if job is not None:
            stop.turns[job.id] = stop.turns.get(job.id, 0) + 1
            await self._offer(block, [job], kept=True)

    def _withheld(self, block: Block) -> list[JobRecord]:
        found = (self._state.jobs.get(job_id) for job_id in self._state.blocks.withheld(block))
        return [job for job in found if job is not None and not job.awaits_person]

    async def _offer(self, block: Block, jobs: Sequence[JobRecord], *, kept: bool = False) -> None:
        offered = self._state.blocks.offered.setdefault(block, {})
        offered.update((job.id, job.standing.attempt) for job in jobs)

        def apply(transaction: Transaction) -> None:
            for known in jobs:
                job = transaction.job(known.id)
                if job is not None and not job.state.final:
                    transaction.put_job(lifecycle.offer_again(job, block, kept=kept))

        await self._change(apply)


def kind_of(job: JobRecord) -> Kind:
    """Return what an executor's answer for a job can depend on."""
    spec, options = job.spec, job.spec.options
    size = options.gpus, options.workers, options.cpus, options.memory, options.rdma, options.gpu_types
    return (spec.user, spec.project, options.image, options.datasets, options.secrets, *size)


def placement_of(job: JobRecord, nodes: Iterable[Node]) -> Placement | None:
    """Return a placement like those that the job may get, None if no node could hold a worker of it."""
    options = job.spec.options
    if not options.gpus:
        return tuple(Worker(rank, "", ()) for rank in range(options.workers))
    suitable = (
        node
        for node in nodes
        if node.available
        and node.gpus >= options.gpus
        and (not options.gpu_types or node.gpu_type in options.gpu_types)
    )
    node = next(suitable, None)
    if node is None:
        return None
    return tuple(Worker(rank, node.name, tuple(range(options.gpus))) for rank in range(options.workers))
