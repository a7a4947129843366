"""A plan's decisions, applied to a draft."""

from __future__ import annotations

import logging
from dataclasses import replace

from springtide.scheduler.engine import lifecycle
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.engine.world import Draft
from springtide.scheduler.model import Decision, Drop, JobState, Move, Pause, Plan, Reserve, Start
from springtide.scheduler.store.records import JobRecord

logger = logging.getLogger(__name__)
WAITING = frozenset({JobState.QUEUED, JobState.PAUSED})


def carry_out(draft: Draft, plan: Plan, stats: Stats) -> bool:
    """Apply all decisions; whether there were any that could be. One that cannot be is logged and left out."""
    done = False
    for decision in plan.decisions:
        job = draft.job(decision.job)
        if job is None or not _apply(draft, job, decision, stats):
            logger.error("The plan's decision %r does not fit the job as it is; it is not carried out.", decision)
        else:
            done = True
    if any(isinstance(decision, Start) for decision in plan.decisions):
        _note_borrowed(draft)
    return done


def _note_borrowed(draft: Draft) -> None:
    """Write down how many GPUs the attempts that start now borrow."""
    borrowing = draft.borrowing()
    for job in list(draft.jobs.values()):
        attempt = job.live
        if attempt is not None and attempt.created == draft.now and not attempt.seen:
            draft.put(job.with_attempt(replace(attempt, borrowed=borrowing.of(job))))


def _apply(draft: Draft, job: JobRecord, decision: Decision, stats: Stats) -> bool:
    waiting = job.state in WAITING and not job.standing.held
    running = job.live is not None and job.live.asked is None
    match decision:
        case Start(placement=placement, reason=reason) if waiting and placement:
            draft.step(lifecycle.start(job, placement, reason, draft.now))
            stats.starts += 1
        case Pause(reason=reason, beneficiary=beneficiary) if running:
            draft.step(lifecycle.pause(job, reason, draft.now))
            _count_pause(draft, job, beneficiary, stats)
        case Move(placement=placement, reason=reason, beneficiary=beneficiary) if running:
            draft.step(lifecycle.pause(job, reason, draft.now, placement))
            _count_pause(draft, job, beneficiary, stats)
        case Reserve(placement=placement) if waiting or job.live is not None:
            draft.put(job.with_standing(reserved=placement))
        case Drop():
            draft.put(job.with_standing(reserved=()))
        case _:
            return False
    return True


def _count_pause(draft: Draft, job: JobRecord, beneficiary: str | None, stats: Stats) -> None:
    stats.pauses += 1
    other = draft.job(beneficiary) if beneficiary is not None else None
    if other is not None and other.spec.project != job.spec.project:
        stats.reclaims += 1
