"""Reports of the use of the pool: questions checked, and answers read from the ledger beside the engine's loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from types import MappingProxyType

from msgspec.structs import replace
from sqlalchemy import Connection

from springtide.scheduler import wire
from springtide.scheduler.budgets import Month, days_of, month_before, month_named, month_of
from springtide.scheduler.engine.state.lineage import Parents, with_those_inside
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.views import report_view
from springtide.scheduler.engine.views.pool_view import is_simulated
from springtide.scheduler.engine.views.report_highlights import SpentBudget
from springtide.scheduler.process_tuning import uncollected
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.queries import ledger
from springtide.scheduler.store.tables import BudgetRecord
from springtide.scheduler.wire import ReportBy
from springtide.scheduler.wording import count, given, listed, quoted

LONGEST = 3_660
"""Maximum number of days of a report."""
LONGEST_BY_HOUR = 31
"""Maximum number of days of a report by hour."""
MOST_ROWS = 100_000
"""Maximum number of rows of a report."""
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(2199, 12, 31)
"""The days that reports are about."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a caller may see: the use of a person in a project, and the quota of a project."""

    use: Callable[[str, str], bool]
    quota: Callable[[str], bool]


class Reports:
    """Makes reports of the pool with these nodes, in a thread that reads the store."""

    def __init__(
        self,
        state: State,
        store: StoreThreads,
        nodes: ObservedNodes,
        clock: Callable[[], float],
        *,
        currency: str,
        zone: tzinfo,
    ) -> None:
        self._state = state
        self._currency = currency
        self._threads = store
        self._nodes = nodes
        self._clock = clock
        self._zone = zone

    async def report(self, start: str | None, end: str | None, by: str, sight: Sight) -> wire.Report:
        """Return the report from the day ``start`` to the day ``end``, by a list with commas of `wire.ReportBy`.

        Without days it is that of the present month. Raises `Refusal` 422 for an invalid question.
        """
        now = self._clock()
        today = datetime.fromtimestamp(now, UTC).date()
        last = today if end is None else _day(end, "end")
        first = last.replace(day=1) if start is None else _day(start, "start")
        wanted = _columns(by)
        _check_span(first, last, wanted)
        read = partial(
            made,
            simulated=is_simulated(self._nodes.all),
            currency=self._currency,
            parents={name: record.project.parent for name, record in self._state.projects.items()},
            month=self._budgets(first, last) if ReportBy.PROJECT in wanted else None,
        )
        found = await self._threads.read(read, wanted, (first, last), now, sight)
        check_rows(len(found.rows), (last - first).days + 1)
        return replace(found, scope=_scope(sight, self._state.projects))

    def last_month(self) -> tuple[date, date]:
        """Return the first and the last day of the month before the present one, in the pool's time zone."""
        return days_of(month_before(month_of(self._clock(), self._zone), self._zone), self._zone)

    def _budgets(self, first: date, last: date) -> BudgetMonth | None:
        """Return the budgets of a report of one month, whole or up to now; None for other days."""
        month = month_named(f"{first:%Y-%m}", self._zone)
        whole = days_of(month, self._zone)
        today = datetime.fromtimestamp(self._clock(), UTC).date()
        if not self._state.budgets or first != whole[0] or not min(whole[1], today) <= last <= whole[1]:
            return None
        return BudgetMonth(month, list(self._state.budgets.values()))


def _scope(sight: Sight, projects: Iterable[str]) -> str:
    """Return the sentence on whose use a report has, empty for that of all."""
    names = sorted(projects)
    whole = [name for name in names if sight.quota(name)]
    if not whole:
        return "It has your own use alone." if names else ""
    return (
        ""
        if whole == names
        else f"It has all use of {listed([quoted(name) for name in whole])}, and of others your own alone."
    )


@dataclass(frozen=True, slots=True)
class BudgetMonth:
    """The budgets of a month."""

    month: Month
    budgets: Sequence[BudgetRecord]

    def spent(self, connection: Connection, parents: Parents, now: float) -> list[SpentBudget]:
        """Return the spending of each budget by ``now``; ``parents`` are those of projects."""
        spent = ledger.spent(connection, self.month.start, self.month.end, now)
        found = with_those_inside(spent, [each.project for each in self.budgets], parents)
        return [SpentBudget(each, found[each.project]) for each in self.budgets]


def made(
    connection: Connection,
    by: Sequence[ReportBy],
    days: tuple[date, date],
    now: float,
    sight: Sight,
    *,
    parents: Parents = MappingProxyType({}),
    month: BudgetMonth | None = None,
    simulated: bool = False,
    currency: str = "",
) -> wire.Report:
    """Return the report from the first to the last of two days, both included, as it is ``now``."""
    first, last = days
    intervals = ledger.Intervals(report_view.step_of(by), report_view.bounds(by, first, last))
    with uncollected():  # and rows read only for the report are gone at its end
        return report_view.report(
            ledger.accounts(
                connection,
                intervals,
                report_view.fields_of(by),
                now=now,
                may=sight.use,
                lots=report_view.has_quotas(by),
            ),
            by,
            first,
            last,
            now=now,
            quota_of=sight.quota,
            parents=parents,
            budgets=[] if month is None else month.spent(connection, parents, now),
            simulated=simulated,
            currency=currency,
        )


def check_rows(rows: int, days: int) -> None:
    """Raise `Refusal` 422 for a report of these days with too many rows; its hint has the days that fit."""
    if rows > MOST_ROWS:
        fewer = days * MOST_ROWS // rows
        days_or = f"at most {count(fewer, 'day')} at a time, or for " if fewer else ""
        raise Refusal(
            422,
            "invalid",
            f"The report has {rows:,} rows; at most {MOST_ROWS:,} are possible.",
            field="by",
            hint=f"Ask for {days_or}fewer columns.",
        )


def _day(text: str, field: str) -> date:
    wrong = "is not a day"
    if _DAY.fullmatch(text):
        with suppress(ValueError):
            day = date.fromisoformat(text)
            if FIRST_DAY <= day <= LAST_DAY:
                return day
            wrong = f"is not from {FIRST_DAY} to {LAST_DAY}"
    raise Refusal(
        422,
        "invalid",
        f"{given(text)} {wrong}.",
        field=field,
        hint="Give year, month and day, such as 2026-01-31.",
    )


def _columns(by: str) -> list[ReportBy]:
    found: list[ReportBy] = []
    for name in filter(None, (part.strip() for part in by.split(","))):
        try:
            column = ReportBy(name)
        except ValueError:
            raise Refusal(
                422,
                "invalid",
                f"A report cannot be by {given(name)}.",
                field="by",
                hint=f"Choose from {', '.join(ReportBy)}.",
            ) from None
        if column not in found:
            found.append(column)
    return found


def _check_span(first: date, last: date, by: Sequence[ReportBy]) -> None:
    days = (last - first).days + 1
    if days < 1:
        raise Refusal(
            422,
            "invalid",
            f"The report would end on {last}, before it starts on {first}.",
            field="end",
            hint="The last day is part of the report; give one that is not before the first.",
        )
    most = LONGEST_BY_HOUR if ReportBy.HOUR in by else LONGEST
    if days > most:
        raise Refusal(
            422,
            "invalid",
            f"The report would have {days:,} days; at most {most:,} are possible"
            f"{' by hour' if ReportBy.HOUR in by else ''}.",
            field="start",
            hint="Ask for a part of it.",
        )
