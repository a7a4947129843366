"""Budgets of projects: an amount for each month, what happens beyond it, and the months of a pool; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final, NamedTuple

from springtide.scheduler.gpu_types import limit_of, quota_of
from springtide.scheduler.model import Amount, Project

LEVELS: Final = (80, 100)
"""Percentages of a budget of which people are notified once a month."""
BEHIND: Final = 1_000_000
"""What the priority of a project is lowered by so that its jobs go last; those of admins are far below."""


class BudgetUnit(StrEnum):
    """What a budget is in: the currency of the prices, or GPU-hours."""

    MONEY = "money"
    GPU_HOURS = "gpu-hours"


class BeyondBudget(StrEnum):
    """What happens to the jobs of a project that is over its budget."""

    TELL = "tell"
    """Nothing; people are notified."""
    NO_BORROWING = "no-borrowing"
    """They run only within the quota: that is the project's limit."""
    LAST = "last"
    """They go after those of other projects beyond quotas: the project has the lowest priority."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a project has spent: GPU-hours held, and their cost."""

    gpu_hours: float = 0.0
    cost: float = 0.0

    def plus(self, other: Spent) -> Spent:
        """Return the sum of both."""
        return Spent(self.gpu_hours + other.gpu_hours, self.cost + other.cost)

    def of(self, unit: BudgetUnit) -> float:
        """Return the number in a unit."""
        return self.cost if unit is BudgetUnit.MONEY else self.gpu_hours


class Month(NamedTuple):
    """A month in the time zone of a pool: its name such as ``2026-11``, its begin and its end."""

    name: str
    start: float
    end: float


def month_of(moment: float, zone: tzinfo) -> Month:
    """Return the month in which a moment is, in seconds since the epoch."""
    first = datetime.fromtimestamp(moment, zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return Month(f"{first:%Y-%m}", first.timestamp(), after.timestamp())


def month_before(month: Month, zone: tzinfo) -> Month:
    """Return the month before another one."""
    return month_of(month.start - 1.0, zone)


def days_of(month: Month, zone: tzinfo) -> tuple[date, date]:
    """Return the first and the last day of a month."""
    ends = datetime.fromtimestamp(month.end, zone).date() - timedelta(days=1)
    return ends.replace(day=1), ends


def month_named(name: str, zone: tzinfo) -> Month:
    """Return the month with a name such as ``2026-11``."""
    return month_of(datetime.fromisoformat(f"{name}-01").replace(tzinfo=zone).timestamp(), zone)


def level_of(spent: float, amount: float) -> int:
    """Return the highest of `LEVELS` that is reached, 0 if none is."""
    return max((level for level in LEVELS if spent >= amount * level / 100), default=0)


def restrained(project: Project, beyond: BeyondBudget, types: Sequence[str]) -> Project:
    """Return a project that is over its budget as the planner sees it; ``types`` are those of the train pool."""
    if beyond is BeyondBudget.NO_BORROWING:
        booked = (replace(project, quota=part.quota, limit=part.limit) for part in project.at_times)
        at_times = tuple(
            replace(part, limit=_quota_as_limit(then, types))
            for part, then in zip(project.at_times, booked, strict=True)
        )
        return replace(project, limit=_quota_as_limit(project, types), at_times=at_times)
    if beyond is BeyondBudget.LAST:
        return replace(project, priority=project.priority - BEHIND)
    return project


def _quota_as_limit(project: Project, types: Sequence[str]) -> Amount:
    """Return the quota as the limit of each type, or the limit where that is lower."""
    known = types or ("",)
    limits = {
        gpu_type: _lower(limit_of(project, gpu_type, types), quota_of(project, gpu_type, types))
        for gpu_type in known
    }
    return limits if len(known) > 1 or isinstance(project.quota, Mapping) else limits[known[0]]


def _lower(one: int | None, other: int | None) -> int | None:
    """Return the lower of two bounds; None is no bound."""
    bounds = [each for each in (one, other) if each is not None]
    return min(bounds, default=None)
