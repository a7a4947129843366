"""The sums of the ledger, which follow its entries and the measured use of each hour."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.store import StoreError, ledger_writing
from springtide.scheduler.store.gpu_usage import HOUR

logger = logging.getLogger(__name__)
COLLECT = 30.0
"""Time from an entry until it is added to the sums, with those that follow meanwhile, in seconds."""
MEASURED_AFTER = 60.0
"""Time from the end of an hour until its measured use is added, in seconds."""
RETRY = 60.0
"""Delay after a write that failed, in seconds."""


class LedgerSums:
    """Adds entries of the ledger and measured use to its sums; ``due`` is set for new entries."""

    def __init__(self, store: StoreThreads, clock: Callable[[], float]) -> None:
        self._threads = store
        self._clock = clock
        self.due = asyncio.Event()

    async def run(self) -> None:
        """Add entries soon after they came, and measured use after each full hour, until cancelled."""
        while True:
            self.due.clear()
            try:
                await self.sum_up()
            except StoreError as error:
                logger.warning("The ledger could not be summed up, and is again later: %s", error)
                await asyncio.sleep(RETRY)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(HOUR - self._clock() % HOUR + MEASURED_AFTER):
                    await self.due.wait()
                    await asyncio.sleep(COLLECT)

    async def sum_up(self) -> None:
        """Add the new entries of the ledger, and measured use, to the sums. Raises `StoreError`."""
        for pending, add in (
            (ledger_writing.has_entries, ledger_writing.add_entries),
            (ledger_writing.has_use, ledger_writing.add_use),
        ):
            while await self._threads.read(pending):
                await self._threads.write(self._threads.store.write, add)
