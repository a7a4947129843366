"""Decisions of a plan, applied to a transaction."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.restraints import with_budget
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Decision, Drop, JobState, Move, Pause, Plan, Reserve, Start
from springtide.scheduler.store.records import JobRecord

logger = logging.getLogger(__name__)
WAITING = frozenset({JobState.QUEUED, JobState.PAUSED})


def apply_plan(transaction: Transaction, plan: Plan, stats: Stats) -> bool:
    """Apply the decisions that fit their job's state; return whether there was one. The others are logged."""
    applied = False
    for decision in plan.decisions:
        job = transaction.job(decision.job)
        if job is None or not _apply(transaction, job, decision, stats):
            logger.error("The decision %r does not fit the state of its job; it is not carried out.", decision)
        else:
            applied = True
    if any(isinstance(decision, Start) for decision in plan.decisions):
        _record_borrowed(transaction)
    return applied


def _record_borrowed(transaction: Transaction) -> None:
    """Record how many GPUs the attempts that start now borrow."""
    borrowing = transaction.borrowing()
    for job in list(transaction.jobs.values()):
        attempt = job.live
        if attempt is not None and attempt.created == transaction.now and not attempt.seen:
            transaction.put_job(job.with_attempt(replace(attempt, borrowed=borrowing.of(job))))


def _apply(transaction: Transaction, job: JobRecord, decision: Decision, stats: Stats) -> bool:
    waiting = job.state in WAITING and not job.is_idle
    running = job.live is not None and job.live.asked is None
    match decision:
        case Start(placement=placement, reason=reason, turn=turn) if waiting and placement:
            gpu_type = transaction.nodes.type_of(placement)
            placed = transaction.nodes.places.identified(placement)
            started = lifecycle.start(job, placed, reason, transaction.now, gpu_type=gpu_type, turn=turn)
            transaction.apply(started)
            stats.starts += 1
        case Pause(reason=reason, beneficiary=beneficiary) if running:
            why = with_budget(reason, (), transaction.budgets, transaction.state.currency)
            transaction.apply(lifecycle.pause(job, why, transaction.now))
            _count_pause(transaction, job, beneficiary, stats)
        case Move(placement=placement, reason=reason, beneficiary=beneficiary) if running:
            placed = transaction.nodes.places.identified(placement)
            transaction.apply(lifecycle.pause(job, reason, transaction.now, placed))
            _count_pause(transaction, job, beneficiary, stats)
        case Reserve(placement=placement, turn=turn) if waiting or job.live is not None:
            placed = transaction.nodes.places.identified(placement)
            transaction.put_job(job.with_standing(reserved=placed, turn=turn))
        case Drop():
            transaction.put_job(job.with_standing(reserved=(), turn=False))
        case _:
            return False
    return True


def _count_pause(transaction: Transaction, job: JobRecord, beneficiary: str | None, stats: Stats) -> None:
    stats.pauses += 1
    other = transaction.job(beneficiary) if beneficiary is not None else None
    if other is not None and other.spec.project != job.spec.project:
        stats.reclaims += 1
