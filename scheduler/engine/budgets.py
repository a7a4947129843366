"""What projects spend of their budgets, read from the ledger each minute and at the begin of each month."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import tzinfo

from springtide.scheduler import wire
from springtide.scheduler.budgets import Month, month_of
from springtide.scheduler.engine.conflicts import with_changes_of_project
from springtide.scheduler.engine.requests import budgets
from springtide.scheduler.engine.state.lineage import with_those_inside
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.model import Surplus
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError
from springtide.scheduler.store.queries import ledger

logger = logging.getLogger(__name__)
LOOK = 60.0
"""Maximum time between two looks at spending, in seconds."""

Change = Callable[[Callable[[Transaction], None]], Awaitable[None]]


class Budgets:
    """Follows what the projects with budgets spend, and sets budgets, with months of a time zone."""

    def __init__(
        self,
        state: State,
        store: StoreThreads,
        change: Change,
        clock: Callable[[], float],
        *,
        zone: tzinfo,
        surplus: Surplus,
    ) -> None:
        self._state = state
        self._threads = store
        self._change = change
        self._clock = clock
        self._zone = zone
        self._surplus = surplus

    @property
    def month(self) -> Month:
        """The present month."""
        return month_of(self._clock(), self._zone)

    async def run(self) -> None:
        """Follow the spending until cancelled; an error is logged, and it is tried again."""
        while True:
            try:
                await self.follow()
            except (StoreError, Refusal) as error:
                logger.warning("What projects have spent is not known, and is looked up again later: %s", error)
            now = self._clock()
            await asyncio.sleep(min(LOOK, max(0.0, self.month.end - now) + 0.1))

    async def follow(self) -> None:
        """Take in what the projects with budgets have spent by now. Raises `StoreError` and `Refusal`."""
        if self._state.budgets:
            spending = await self.spending()
            await self._change(lambda transaction: budgets.follow(transaction, spending))

    async def set(self, project: str, request: wire.BudgetRequest, by: str) -> None:
        """Give a project a budget for each month. Raises `Refusal`."""
        spending = await self.spending(project)
        await self._change_of(
            project, lambda transaction: budgets.set_budget(transaction, project, request, by, spending)
        )

    async def remove(self, project: str, by: str) -> None:
        """Take the budget of a project away. Raises `Refusal`."""
        await self._change_of(project, lambda transaction: budgets.remove_budget(transaction, project, by))

    async def _change_of(self, project: str, change: Callable[[Transaction], None]) -> None:
        try:
            await self._change(change)
        except Refusal as refusal:
            raise await with_changes_of_project(refusal, self._threads, project) from refusal

    async def spending(self, *more: str) -> budgets.Spending:
        """Return what the projects with budgets, and ``more``, have spent in the present month.

        The projects inside count. Raises `StoreError`.
        """
        now, month = self._clock(), self.month
        parents = {name: record.project.parent for name, record in self._state.projects.items()}
        spent = await self._threads.read(ledger.spent, month.start, month.end, now)
        of_all = with_those_inside(spent, {*self._state.budgets, *more}, parents)
        return budgets.Spending(of_all, month, self._surplus)
