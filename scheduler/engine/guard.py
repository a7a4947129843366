"""The promises at run time: a decision that would break one is logged and not carried out."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from springtide.scheduler.engine.planning import Planning
from springtide.scheduler.model import Decision, Move, Pause, Plan
from springtide.scheduler.promises import Breach, check_decisions

logger = logging.getLogger(__name__)


def keep_promises(planning: Planning, plan: Plan, now: float) -> tuple[Plan, tuple[Breach, ...]]:
    """The plan without the decisions that would break a promise, and what they would have broken."""
    takes = any(isinstance(decision, Pause | Move) for decision in plan.decisions)
    breaches = check_decisions(planning.books, plan, now, planning.planner.standing() if takes else None)
    if not breaches:
        return plan, ()
    for breach in breaches:
        logger.error("A plan would have broken a promise; that part of it is not carried out: %s", breach)
    logger.error("It was made on %s", msgspec.json.encode(planning.snapshot(now)).decode())
    if any(breach.job is None for breach in breaches):
        return replace(plan, decisions=()), breaches
    bad = {breach.job for breach in breaches}
    return replace(plan, decisions=tuple(d for d in plan.decisions if not _concerns(d, bad))), breaches


def _concerns(decision: Decision, jobs: set[str | None]) -> bool:
    beneficiary = decision.beneficiary if isinstance(decision, Pause | Move) else None
    return decision.job in jobs or (beneficiary is not None and beneficiary in jobs)
