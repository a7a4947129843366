"""Asynchronous access to the store, whose methods block: one thread writes, a few read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store, StoreError, StoreFullError

T = TypeVar("T")
READERS = 4
"""Number of threads that read."""


class StoreThreads:
    """Runs the blocking methods of ``store`` in threads. `read` and `write` raise what these methods raise."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._trouble: str | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="springtide-store")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="springtide-read")

    async def read(self, work: Callable[..., T], *args: object) -> T:
        """Run a method that reads."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *args)

    async def write(self, work: Callable[..., T], *args: object) -> T:
        """Run a method that writes, after those that were asked for before."""
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)
        except StoreError as error:
            self._trouble = str(error)
            raise
        self._trouble = None
        return result

    @property
    def failing(self) -> bool:
        """Whether the last write failed."""
        return self._trouble is not None

    async def trouble(self) -> str | None:
        """Return why the store takes no writes, None if it does; after a failed write that is tried again."""
        if self._trouble is not None:
            with suppress(StoreError):
                await self.write(self.store.probe)
        return self._trouble

    def shutdown(self) -> None:
        """End the threads once they have finished. The store stays open."""
        self._writer.shutdown()
        self._readers.shutdown()


def store_refusal(error: StoreError) -> Refusal:
    """Return what a user is told when a request could not be committed."""
    if isinstance(error, StoreFullError):
        return Refusal(
            507,
            "disk_full",
            f"{error} Nothing was accepted; what runs goes on.",
            hint="Tell an admin of this hub to make room, then try again.",
        )
    return Refusal(
        503,
        "store",
        "The pool's store could not be written, so nothing was accepted.",
        hint="Try again in a moment.",
    )
