"""The promises at run time: a decision that would break one is logged and left out."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from springtide.scheduler.engine.state.journal import JournaledPlanner
from springtide.scheduler.model import Decision, Move, Pause, Plan
from springtide.scheduler.promises import Breach, check_decisions

logger = logging.getLogger(__name__)


def enforce_promises(planner: JournaledPlanner, plan: Plan, now: float) -> tuple[Plan, tuple[Breach, ...]]:
    """Return the plan without the decisions that would break a promise, and the breaches.

    A breach that concerns no single job removes all decisions.
    """
    takes_gpus = any(isinstance(decision, Pause | Move) for decision in plan.decisions)
    breaches = check_decisions(planner.books, plan, now, planner.standing() if takes_gpus else None)
    if not breaches:
        return plan, ()
    for breach in breaches:
        logger.error("A plan would break a promise; that part of it is not carried out: %s", breach)
    logger.error("The plan was made on the snapshot %s", msgspec.json.encode(planner.snapshot(now)).decode())
    if any(breach.job is None for breach in breaches):
        return replace(plan, decisions=()), breaches
    jobs = {breach.job for breach in breaches}
    return replace(plan, decisions=tuple(d for d in plan.decisions if not _concerns(d, jobs))), breaches


def _concerns(decision: Decision, jobs: set[str | None]) -> bool:
    beneficiary = decision.beneficiary if isinstance(decision, Pause | Move) else None
    return decision.job in jobs or (beneficiary is not None and beneficiary in jobs)
