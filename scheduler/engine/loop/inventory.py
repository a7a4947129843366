"""Requests for the executor's inventory, in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from springtide.scheduler.backoff import Backoff, Jitter
from springtide.scheduler.engine.loop.mailbox import EngineObservation, NodesObserved
from springtide.scheduler.executors.base import InventoryChanged
from springtide.scheduler.model import Node

logger = logging.getLogger(__name__)

FIRST_DELAY = 0.5
"""Delay after an inventory that could not be read, in seconds; doubled after each further failure."""
MAX_DELAY = 10.0
"""Maximum delay after an inventory that could not be read, in seconds."""


class InventoryReader:
    """Reads the inventory when asked and reports it as `NodesObserved`; one reading at a time.

    ``ask`` returns the executor's inventory.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[tuple[Node, ...]]],
        report: Callable[[EngineObservation], None],
        *,
        jitter: Jitter,
    ) -> None:
        self._ask = ask
        self._report = report
        self._backoff = Backoff(FIRST_DELAY, MAX_DELAY, jitter=jitter)
        self._task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether no reading is under way."""
        return self._task is None or self._task.done()

    def request(self) -> None:
        """Read the inventory. A reading that is under way counts."""
        if self.idle:
            self._task = asyncio.get_running_loop().create_task(self._read(), name="inventory")

    def stop(self) -> None:
        """Cancel a reading that is under way."""
        if self._task is not None:
            self._task.cancel()

    async def _read(self) -> None:
        try:
            nodes = await self._ask()
        except Exception:  # an executor may raise anything, and the engine must keep running
            delay = self._backoff.next_delay()
            logger.exception("The inventory could not be read; it is read again in %.1f s.", delay)
            await asyncio.sleep(delay)
            asyncio.get_running_loop().call_soon(self._report, InventoryChanged())
        else:
            self._backoff.reset()
            self._report(NodesObserved(nodes))
