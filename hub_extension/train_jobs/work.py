"""A queue of keys with workers: one key at most once at a time, with retries."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from springtide.scheduler.backoff import Backoff
from springtide.scheduler.kube import ApiError
from springtide.scheduler.refusal import Refusal

log = logging.getLogger(__name__)

WORKERS: Final = 16
FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 60.0
LAST_WORK_S: Final = 5.0


class Work:
    """Call ``do(key)`` for every key that was added, several keys at a time, one key never twice at once.

    A key that is added several times before its turn is done once. A ``do`` that raises is called again after a
    delay that doubles, up to a minute; it is meant to compare the wanted with the actual state. ``name`` gives the
    name of a key in the log.
    """

    def __init__(
        self, do: Callable[[str], Awaitable[None]], name: Callable[[str], str], *, workers: int = WORKERS
    ) -> None:
        self._do = do
        self._name = name
        self._workers = workers
        self._waiting: deque[str] = deque()
        self._queued: set[str] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._some = asyncio.Semaphore(0)
        self._tasks: list[asyncio.Task[None]] = []
        self._open = False

    def start(self) -> None:
        """Start the workers."""
        self._open = True
        running = asyncio.get_running_loop()
        self._tasks = [
            running.create_task(self._work(), name=f"train jobs {number}") for number in range(self._workers)
        ]

    async def stop(self) -> None:
        """Finish the running calls within a few seconds, and drop the queue."""
        self._open = False
        for timer in self._later.values():
            timer.cancel()
        for _ in self._tasks:
            self._some.release()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LAST_WORK_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, key: str) -> None:
        """Queue a key."""
        if (timer := self._later.pop(key, None)) is not None:
            timer.cancel()
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)
            self._some.release()

    def add_later(self, key: str, seconds: float) -> None:
        """Queue a key after ``seconds``, unless it is queued already."""
        if self._open and key not in self._queued and key not in self._again and key not in self._later:
            self._later[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def _work(self) -> None:
        while True:
            await self._some.acquire()
            if not self._open:
                return
            key = self._waiting.popleft()
            self._queued.discard(key)
            self._busy.add(key)
            try:
                await self._try(key)
            finally:
                self._busy.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _try(self, key: str) -> None:
        try:
            await self._do(key)
        except ApiError as error:
            self._failed(key, error.retry_after)
            log.log(logging.DEBUG if error.status == 409 else logging.WARNING, "%s: %s", self._name(key), error)
        except Refusal as refusal:
            self._failed(key)
            log.info("%s: %s", self._name(key), refusal.message)
        except Exception:
            self._failed(key)
            log.exception("%s could not be looked after; it is tried again.", self._name(key))
        else:
            self._backoffs.pop(key, None)

    def _failed(self, key: str, at_least: float | None = None) -> None:
        backoff = self._backoffs.setdefault(key, Backoff(FIRST_WAIT_S, LONGEST_WAIT_S))
        self.add_later(key, backoff.next_delay(at_least=at_least or 0.0))
