"""Launching stops for a reason that has kept several jobs from starting, and goes on once that is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

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
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Block
from springtide.scheduler.store.records import JobRecord

logger = logging.getLogger(__name__)


def follow(transaction: Transaction) -> None:
    """Withhold the jobs that a block concerns which has kept several others, and offer them again after it.

    A start of a job that the block has kept shows that it is gone, unless the executor can tell for each job.
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
