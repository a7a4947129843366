"""Asynchronous access to the store, whose methods block: one thread writes, a few read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import Connection

from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store, StoreError, StoreFullError, StoreMovedError

P = ParamSpec("P")
T = TypeVar("T")
READERS = 4
"""Number of threads that read."""
GO_ON: Final = "Jobs that were accepted before wait, and running ones continue."
PROBE_EVERY_S: Final = 5.0
"""Seconds between two probes of a store that takes no writes."""
MAKE_ROOM: Final = "An administrator of this hub has to make room on this disk; then try again."


class StoreThreads:
    """Runs the blocking methods of ``store`` in threads. `read` and `write` raise what these methods raise."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.when_moved: Callable[[StoreMovedError], object] = lambda _: None
        """Is called with the error when the store's files are found not to be in their place."""
        self.when_trouble_changes: Callable[[], object] = lambda: None
        """Is called when writes begin to fail, and when they succeed again."""
        self._failure: StoreError | None = None
        self._watching: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="springtide-store")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="springtide-read")

    async def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs) -> T:
        """Run a query; see `Store.read`."""
        return await self.call(partial(self.store.read, query, *args, **more))

    async def call(self, method: Callable[..., T], *args: object) -> T:
        """Run another method of the store beside those that write."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, method, *args)

    async def write(self, work: Callable[..., T], *args: object) -> T:
        """Run a method that writes, after those that were asked for before."""
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)
        except StoreError as error:
            self._follow(error)
            if isinstance(error, StoreMovedError):
                self.when_moved(error)
            raise
        self._follow(None)
        return result

    def _follow(self, failure: StoreError | None) -> None:
        """Take over how the last write went; watch until the next one succeeds, even without other writes."""
        changed = (failure is None) != (self._failure is None)
        self._failure = failure
        if not changed:
            return
        if failure is not None and self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        self.when_trouble_changes()

    async def _watch(self) -> None:
        try:
            while self.failing:
                await asyncio.sleep(PROBE_EVERY_S)
                await self.trouble()
        finally:
            self._watching = None

    @property
    def failing(self) -> bool:
        """Whether the last write failed."""
        return self._failure is not None

    @property
    def known_trouble(self) -> str:
        """Why the last write failed, empty if it did not."""
        return "" if self._failure is None else str(self._failure)

    async def trouble(self) -> str | None:
        """Return why the store takes no writes, None if it does. That is tried, once for all who ask meanwhile."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe())
        await asyncio.shield(self._probing)
        return self.known_trouble or None

    async def full_disk(self) -> str:
        """Return which disk is full, in a sentence, empty if none is. That is tried, as by `trouble`."""
        await self.trouble()
        return self.known_trouble if isinstance(self._failure, StoreFullError) else ""

    async def _probe(self) -> None:
        try:
            with suppress(StoreError):
                await self.write(self.store.probe)
        finally:
            self._probing = None

    def shutdown(self) -> None:
        """End the threads once they have finished. The store stays open."""
        if self._watching is not None:
            self._watching.cancel()
        self._writer.shutdown()
        self._readers.shutdown()


def store_refusal(error: StoreError) -> Refusal:
    """Return the refusal for a request that could not be committed."""
    if isinstance(error, StoreFullError):
        return Refusal(
            507,
            "disk_full",
            f"{error} Nothing was accepted. {GO_ON}",
            hint=MAKE_ROOM,
        )
    if isinstance(error, StoreMovedError):
        return Refusal(
            503,
            "store",
            "The pool's store was removed or replaced while the service runs, so nothing was accepted.",
            hint="Tell an admin of this hub; what to do is in the service's log and under /ready.",
        )
    return Refusal(
        503,
        "store",
        "The pool's store could not be written, so nothing was accepted.",
        hint="Try again in a moment.",
    )
