"""Budgets of projects: set and removed by admins, and followed through the months."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, NamedTuple

from springtide.scheduler import wire
from springtide.scheduler.budgets import BeyondBudget, BudgetUnit, Month, Spent, level_of
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Surplus
from springtide.scheduler.refusal import Refusal, invalid_field, unknown_project
from springtide.scheduler.store.tables import POOL, BudgetRecord
from springtide.scheduler.wording import given

NEGLIGIBLE = 0.001
"""Part of a budget by which its spending has to grow to be noted, unless it reaches a level."""


class Spending(NamedTuple):
    """What projects have spent in the present month, and the pool's rule for surplus."""

    spent: Mapping[str, Spent]
    month: Month
    surplus: Surplus


def set_budget(
    transaction: Transaction, project: str, request: wire.BudgetRequest, by: str, spending: Spending
) -> None:
    """Give a project, whose spending is known, a budget for each month.

    Levels that it keeps are not notified again. Raises `Refusal` for an unknown project, an amount of more
    than two decimals, a budget in money without prices, and one whose rule has no effect with the pool's rule for
    surplus.
    """
    _check_project(transaction, project)
    unit, beyond = BudgetUnit(request.unit), BeyondBudget(request.beyond)
    if not isfinite(request.amount):
        raise invalid_field("amount", f"A budget of {request.amount} is not possible.")
    if request.amount != round(request.amount, 2):
        raise invalid_field(
            "amount",
            f"A budget has at most two decimals; {request.amount} has more.",
            f"Give {max(0.01, round(request.amount, 2)):.2f}, for example.",
        )
    if unit is BudgetUnit.MONEY and not any(transaction.state.prices.values()):
        raise invalid_field(
            "unit",
            "GPU-hours have no prices here, so nothing would be spent of a budget in money.",
            "Give it in GPU-hours, or have an administrator set gpu_hour_prices.",
        )
    if beyond is BeyondBudget.LAST and spending.surplus is not Surplus.FAIR:
        raise invalid_field(
            "beyond",
            "What quotas leave goes to the jobs that had least here, whoever's they are, so that none goes last.",
            "Choose no-borrowing or tell.",
        )
    before, spent, month = transaction.budgets.get(project), spending.spent[project], spending.month
    level = level_of(spent.of(unit), request.amount)
    told = min(level, before.told) if before is not None and before.month == month.name else 0
    after = BudgetRecord(
        project,
        request.amount,
        unit,
        beyond,
        by,
        transaction.now,
        month.name,
        spent.gpu_hours,
        spent.cost,
        told,
    )
    if _shown(before) != _shown(after):
        transaction.budgets.put(after)
        transaction.add_audit_entry(by, "project.budget", project, _shown(before), _shown(after), project=project)
        _tell(transaction, project)


def remove_budget(transaction: Transaction, project: str, by: str) -> None:
    """Take the budget of a project away. Raises `Refusal` 404 for an unknown project, or one without a budget."""
    _check_project(transaction, project)
    before = transaction.budgets.get(project)
    if before is None:
        raise Refusal(404, "no_budget", f"The project {given(project)} has no budget.")
    transaction.budgets.remove(project)
    transaction.add_audit_entry(by, "project.budget", project, _shown(before), {}, project=project)


def recorded(transaction: Transaction, project: str) -> dict[str, object]:
    """Return the budget of a project as the audit trail has it; nothing without one."""
    return _shown(transaction.budgets.get(project))


def restore(
    transaction: Transaction, project: str, values: Mapping[str, Any], by: str, spending: Spending
) -> None:
    """Give a project the budget with the ``values`` that the audit trail has of it, none without values.

    Raises `Refusal` as `set_budget` does.
    """
    if values:
        set_budget(transaction, project, wire.BudgetRequest(**values), by, spending)
    else:
        remove_budget(transaction, project, by)


def follow(transaction: Transaction, spending: Spending) -> None:
    """Take in what the projects with budgets have spent in the present month.

    A new month begins without notifications. Small changes are left out.
    """
    month = spending.month
    for project, found in spending.spent.items():
        before = transaction.budgets.get(project)
        if before is None:
            continue
        after = replace(before, month=month.name, gpu_hours=found.gpu_hours, cost=found.cost)
        if before.month != month.name:
            transaction.budgets.put(replace(after, told=0))
        elif after.level != before.level or abs(after.spent - before.spent) >= NEGLIGIBLE * before.amount:
            transaction.budgets.put(after)
        _tell(transaction, project)


def _tell(transaction: Transaction, project: str) -> None:
    """Note that people are notified of a level that is reached, and in the audit trail that a budget is spent."""
    record = transaction.budgets[project]
    if record.level <= record.told:
        return
    transaction.budgets.put(replace(record, told=record.level))
    if record.is_over:
        spent = {"month": record.month, "spent": round(record.spent, 2), "amount": record.amount}
        transaction.add_audit_entry(POOL, "budget.spent", project, {}, spent, project=project)


def _check_project(transaction: Transaction, project: str) -> None:
    if project not in transaction.projects:
        raise unknown_project(project)


def _shown(record: BudgetRecord | None) -> dict[str, object]:
    if record is None:
        return {}
    return {"amount": record.amount, "unit": record.unit.value, "beyond": record.beyond.value}
