"""The budget of a project, and what it does to jobs."""

from __future__ import annotations

from springtide.scheduler.budgets import BeyondBudget, BudgetUnit
from springtide.scheduler.sentences.decisions import quoted_name
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    cause,
    change,
    follows,
    number,
    real,
    state,
)
from springtide.scheduler.wording import money

_BEYOND = {
    BeyondBudget.TELL: "its jobs run as before",
    BeyondBudget.NO_BORROWING: "its jobs run only within its quota",
    BeyondBudget.LAST: "its jobs beyond its quota go last",
}


def budget_amount(value: float, unit: str, currency: str) -> str:
    """Return an amount with its unit: ``1,200 €``, ``12.50 €``, ``300 GPU-hours``."""
    of = "GPU-hours" if unit == BudgetUnit.GPU_HOURS else " ".join(currency.split())
    return f"{money(value)} {of}".rstrip()


def budget_spent(p: Params) -> str:
    """Return what a spent budget does to the jobs of its project, without its amounts, as a sentence."""
    beyond = _BEYOND[BeyondBudget(str(p.get("budget_beyond")))]
    return f"The {_budget(p)} is spent: {beyond}{_until(p)}."


def over_budget(p: Params) -> Sentences:
    """Yield which project is over its budget, if the parameters name one, and what that does to its jobs."""
    if p.get("budget_of"):
        beyond = _BEYOND[BeyondBudget(str(p.get("budget_beyond")))]
        yield cause(f"{_project(p)} is over its {_budget(p)}: {_spent(p)}; {beyond}{_until(p)}.")


def is_limit(p: Params) -> bool:
    """Return whether a limit among the parameters is the quota of a project that is over its budget."""
    return bool(p.get("budget_of")) and p.get("budget_beyond") == BeyondBudget.NO_BORROWING


def _until(p: Params) -> str:
    return "" if p.get("budget_beyond") == BeyondBudget.TELL else f" until {p.get('budget_until')}"


def _spent(p: Params) -> str:
    unit, currency = str(p.get("budget_unit")), str(p.get("budget_currency") or "")
    amount = budget_amount(real(p, "budget_amount"), unit, currency)
    return f"{money(real(p, 'budget_spent'))} of {amount}"


def _project(p: Params) -> str:
    return f"The project {quoted_name(p, 'budget_of')}"


def _budget(p: Params) -> str:
    return f"budget for {p.get('budget_month')}"


def _within(p: Params) -> Sentences:
    yield state(f"{_project(p)} has spent {_spent(p)} of its {_budget(p)}.")


def _near(p: Params) -> Sentences:
    yield cause(f"{_project(p)} has spent {number(p, 'level')} % of its {_budget(p)}: {_spent(p)}.")


def _near_next(p: Params) -> Sentences:
    beyond = _BEYOND[BeyondBudget(str(p.get("budget_beyond")))]
    yield follows(f"Once it is spent, {beyond}{_until(p)}.")


def _over_next(p: Params) -> Sentences:
    yield follows(f"A new budget begins on {p.get('budget_until')}.")
    yield change("An administrator of the pool can raise or remove it: “Budget…” on the page Projects and quotas.")


SAYS_IT = frozenset({"limit-lowered", "engine-starts-budget"})
"""Codes of other reasons whose own sentences say that a budget is in the way."""

BUDGETS: Table = {
    "notify-budget": _within,
    "notify-budget-over": over_budget,
    "notify-budget-near": _near,
    "notify-budget-near-next": _near_next,
    "notify-budget-over-next": _over_next,
}
