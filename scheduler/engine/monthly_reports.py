"""The reports of months that have ended: announced once each, and made for each person who chose them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import partial

from springtide.scheduler import wire
from springtide.scheduler.budgets import Month, days_of, month_before, month_named, month_of
from springtide.scheduler.engine.reports import Reports, Sight
from springtide.scheduler.engine.state.lineage import lineage
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError
from springtide.scheduler.store.tables import MonthlyReport
from springtide.scheduler.wire import ReportBy

logger = logging.getLogger(__name__)
LOOK = 600.0
"""Maximum time between two looks whether a month has ended, in seconds."""
SETTLED = 2 * 3_600.0
"""Time after the end of a month by which its use is measured, in seconds."""
MOST_MONTHS = 12
"""Number of months before now that are announced at most, however long the service was away."""

Change = Callable[[Callable[[Transaction], None]], Awaitable[None]]


class MonthlyReports:
    """Announces the report of each month, in the time zone of the pool, and makes it for a person.

    ``administrators`` see all of the pool, leads their projects with those inside them.
    """

    def __init__(
        self,
        state: State,
        reports: Reports,
        change: Change,
        clock: Callable[[], float],
        *,
        zone: tzinfo,
        administrators: frozenset[str],
    ) -> None:
        self._state = state
        self._reports = reports
        self._change = change
        self._clock = clock
        self._zone = zone
        self._administrators = administrators

    async def run(self) -> None:
        """Announce reports until cancelled; an error is logged, and it is tried again."""
        while True:
            try:
                await self.follow()
            except (StoreError, Refusal) as error:
                logger.warning("Reports of months were not announced, and are tried again: %s", error)
            due = self._due(month_of(self._clock(), self._zone)) - self._clock()
            await asyncio.sleep(min(LOOK, max(0.0, due) + 0.1))

    async def follow(self) -> None:
        """Announce the reports of months that have ended and were not announced, the oldest first.

        If the service was away for months, these are all since the latest that was announced before now. Of empty
        ones the last alone is noted. Raises `StoreError` and `Refusal`.
        """
        ended = self._ended()
        for month in ended:
            found = await self._report(month, Sight(lambda *_: True, lambda _: True), ReportBy.PROJECT)
            if found.rows or month == ended[-1]:
                await self._change(partial(announce, month=month.name, empty=not found.rows))

    def _ended(self) -> list[Month]:
        """Return the months since the latest announced one whose report is due; the last alone without one."""
        month = month_of(self._clock(), self._zone)
        latest = max((name for name in self._state.monthly_reports if name < month.name), default="")
        found: list[Month] = []
        for _ in range(MOST_MONTHS if latest else 1):
            month = month_before(month, self._zone)
            if month.name <= latest or month.end <= 0.0:
                break
            if self._due(month) <= self._clock():
                found.insert(0, month)
        return found

    async def of_person(self, user: str, month: str) -> tuple[wire.Report, wire.Report] | None:
        """Return the report of a month that a person may see, by project and by day; None if that is nothing.

        Raises `StoreError` and `Refusal`.
        """
        sight = self._sight(user)
        if sight is None:
            return None
        named = month_named(month, self._zone)
        return await self._report(named, sight, ReportBy.PROJECT), await self._report(named, sight, ReportBy.DAY)

    async def _report(self, month: Month, sight: Sight, by: ReportBy) -> wire.Report:
        first, last = (day.isoformat() for day in days_of(month, self._zone))
        return await self._reports.report(first, last, by, sight)

    def _sight(self, user: str) -> Sight | None:
        """Return what a person may see as an administrator or a lead; None for others."""
        if user in self._administrators:
            return Sight(lambda *_: True, lambda _: True)
        led = {name for name, group in self._state.hub_groups.items() if user in group.leads}
        if not led:
            return None
        parents = {name: record.project.parent for name, record in self._state.projects.items()}

        def leads(project: str) -> bool:
            return not led.isdisjoint(lineage(project, parents))

        return Sight(lambda _, project: leads(project), leads)

    def _due(self, month: Month) -> float:
        """Return when the report of a month is announced: once it has ended here and in UTC, and is measured."""
        after = days_of(month, self._zone)[1] + timedelta(days=1)
        return max(month.end, datetime.combine(after, time(), UTC).timestamp()) + SETTLED


def announce(transaction: Transaction, month: str, *, empty: bool) -> None:
    """Note that the report of a month is there; people are notified with it unless it is ``empty``."""
    if month not in transaction.monthly_reports:
        transaction.monthly_reports.put(MonthlyReport(month, transaction.now, empty))
