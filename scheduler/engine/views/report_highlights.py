"""Remarks about the projects of a report, in sentences; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from springtide.scheduler.budgets import LEVELS, Spent
from springtide.scheduler.engine.state.lineage import Parents, lineage
from springtide.scheduler.sentences import budget_amount
from springtide.scheduler.store.tables import BudgetRecord
from springtide.scheduler.wording import at_a_glance, count, duration, listed, money, quoted

MOST_NAMED = 8
"""Maximum number of projects that one sentence names."""
LONG_WAIT = 60.0
"""The least wait that is notable, in seconds."""


@dataclass(slots=True)
class ProjectUse:
    """What a project held, borrowed and lent, in GPU-seconds, and the longest wait of its jobs, in seconds."""

    held: float = 0.0
    borrowed: float = 0.0
    lent: float = 0.0
    has_quota: bool = False
    longest_wait: float = 0.0


@dataclass(frozen=True, slots=True)
class SpentBudget:
    """A budget, and its spending in the month of the report."""

    budget: BudgetRecord
    spent: Spent

    @property
    def part(self) -> float:
        """The part of the budget that was spent."""
        return self.spent.of(self.budget.unit) / self.budget.amount


def notable(
    uses: Mapping[str, ProjectUse], parents: Parents, budgets: Sequence[SpentBudget], currency: str
) -> list[str]:
    """Return who never used a quota, whose budget was nearly spent, who borrowed and lent, and who waited long.

    A project uses its quota by those inside it, too; ``parents`` are those of projects.
    """
    found = [
        _unused(uses, parents),
        *(_nearly_spent(each, currency) for each in sorted(budgets, key=lambda each: -each.part)),
        _most(uses, "borrowed", lambda use: use.borrowed),
        _most(uses, "lent", lambda use: use.lent),
        _longest_waits(uses),
    ]
    return [text for text in found if text]


def _unused(uses: Mapping[str, ProjectUse], parents: Parents) -> str:
    used = {above for name, use in uses.items() if use.held for above in lineage(name, parents)}
    names = [quoted(name) for name, use in sorted(uses.items()) if use.has_quota and name not in used]
    held = f"{count(len(names), 'project')} with a quota held nothing"
    return f"{held}: {listed(names, MOST_NAMED)}." if names else ""


def _nearly_spent(each: SpentBudget, currency: str) -> str:
    budget = each.budget
    if each.part * 100 < LEVELS[0]:
        return ""
    spent, amount = money(each.spent.of(budget.unit)), budget_amount(budget.amount, budget.unit, currency)
    return f"{quoted(budget.project)} spent {each.part * 100:.0f} % of its budget: {spent} of {amount}."


def _most(uses: Mapping[str, ProjectUse], done: str, hours_of: Callable[[ProjectUse], float]) -> str:
    """Return who borrowed or lent most."""
    most = sorted(((hours_of(use), name) for name, use in uses.items()), key=lambda each: (-each[0], each[1]))
    named = [f"{quoted(name)} {at_a_glance(seconds / 3600)}" for seconds, name in most if seconds > 0]
    return f"GPU-hours {done}: {listed(named)}." if named else ""


def _longest_waits(uses: Mapping[str, ProjectUse]) -> str:
    longest = [(use.longest_wait, name) for name, use in uses.items() if use.longest_wait >= LONG_WAIT]
    slow = sorted(longest, key=lambda each: (-each[0], each[1]))
    named = [f"{duration(wait)} in {quoted(name) if name else 'no project'}" for wait, name in slow]
    return f"Longest waits for a first start: {listed(named)}." if named else ""
