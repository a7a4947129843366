"""Projects as the planner sees them: with the quotas of bookings, restrained where a budget is spent; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from springtide.scheduler.budgets import BeyondBudget, restrained
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state.booked import in_time
from springtide.scheduler.model import Project, Reason
from springtide.scheduler.store.tables import BookingRecord, BudgetRecord, ProjectRecord

AT_LIMIT = frozenset({"over-limit", "limit-held", "limit-lowered"})
"""Codes of the reasons that name a project whose limit is in the way."""
OUTRANKED = frozenset({"no-room", "share-used", "too-soon", "awaits-turn"})
"""Codes of the reasons of jobs that wait for GPUs which others hold, or get before them."""


def planned_projects(
    records: Iterable[ProjectRecord],
    budgets: Mapping[str, BudgetRecord],
    bookings: Collection[BookingRecord],
    types: Sequence[str],
) -> dict[str, Project]:
    """Return every project as the planner sees it, by name; ``types`` are those of the train pool.

    A budget that is spent restrains a project also while a booking changes its quota.
    """
    return {
        project.name: project
        if (budget := budgets.get(project.name)) is None or not budget.is_over
        else restrained(project, budget.beyond, types)
        for project in in_time({record.name: record.project for record in records}, bookings, types)
    }


def limited(budgets: Mapping[str, BudgetRecord]) -> frozenset[str]:
    """Return the projects whose limit is their quota, because they are over their budgets."""
    return frozenset(
        name for name, each in budgets.items() if each.is_over and each.beyond is BeyondBudget.NO_BORROWING
    )


def with_budget(why: Reason, lineage: Iterable[str], budgets: Mapping[str, BudgetRecord], currency: str) -> Reason:
    """Return why a job waits or was paused, with the budget that has a part in it, if one has.

    ``lineage`` are its project and those that it is in: one of them that goes last has a part in every wait.
    """
    if not budgets:
        return why
    at = why.params.get("at")
    found: BudgetRecord | None = None
    if why.code in AT_LIMIT:
        found = budgets[str(at)] if at in limited(budgets) else None
    elif why.code in OUTRANKED:
        over = (budgets.get(name) for name in lineage)
        found = next((each for each in over if each and each.is_over and each.beyond is BeyondBudget.LAST), None)
    return why if found is None else replace(why, params={**why.params, **messages.budget_words(found, currency)})
