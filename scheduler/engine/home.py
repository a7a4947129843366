"""The home page of administrators: its numbers are read from the daily sums of the ledger, beside the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection

from springtide.scheduler import wire
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.usage import GpuUsage
from springtide.scheduler.engine.views import home_view
from springtide.scheduler.engine.views.home_view import Past, Present
from springtide.scheduler.engine.views.read_model import ReadModel
from springtide.scheduler.store.ledger import DAY
from springtide.scheduler.store.queries import ledger

KEPT_FOR: Final = 30.0
"""Time for which the figures of the last days serve other callers, in seconds."""


class Home:
    """Makes the page of the pool; what it reads of the store is kept a while."""

    def __init__(
        self, read_model: ReadModel, usage: GpuUsage, store: StoreThreads, clock: Callable[[], float]
    ) -> None:
        self._read_model = read_model
        self._usage = usage
        self._threads = store
        self._clock = clock
        self._past: Past | None = None
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def home(self) -> wire.Home:
        """Return the page as it is now. Raises `StoreError`."""
        past, model, now = await self._last_days(), self._read_model, self._clock()
        present = Present(model.state, model.nodes, model.pool(), self._usage.pool())
        return home_view.home(present, past, now)

    async def _last_days(self) -> Past:
        async with self._reading:
            now = self._clock()
            if self._past is None or not 0 <= now - self._read_at < KEPT_FOR:
                self._past = await self._threads.read(last_days, now)
                self._read_at = now
            return self._past


def last_days(connection: Connection, now: float) -> Past:
    """Return the accounts of the days that the page needs, from sums by day."""
    first = home_view.first_day(now)
    intervals = ledger.Intervals(DAY, range(first, int(now // DAY + 1) * DAY + 1, DAY))
    pool, by_type, by_project = (
        ledger.accounts(connection, intervals, fields, now=now).rows for fields in ([], ["gpu_type"], ["project"])
    )
    return Past(pool, by_type, by_project)
