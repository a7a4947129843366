"""Looks at the files of running attempts. They grow on other machines, so nobody tells when."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from springtide.scheduler.executors.base import AttemptKey, ExecutorError, Observation
from springtide.scheduler.executors.files.growth import Growth

log = logging.getLogger(__name__)

INTERVAL = 0.25
"""Seconds between two looks at an attempt whose files grow, or that somebody reads."""
LONGEST = 10.0
OFTEN = 16
"""So many workers an attempt may have to be looked at that often."""
BATCH = 64


@dataclass(slots=True)
class _Followed:
    growth: Growth
    due: float
    least: float
    pause: float
    new: bool = True


class Follower:
    """Follows attempts until they are forgotten: often those that grow, ever more rarely those that do not.

    ``tell`` gets what grew; ``now`` is the wall clock for reports. The looking is done in a thread of its own.
    """

    def __init__(self, tell: Callable[[Observation], None], now: Callable[[], float]) -> None:
        self._tell = tell
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._followed: dict[AttemptKey, _Followed] = {}
        self._heap: list[tuple[float, AttemptKey]] = []
        self._more = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="follower")
        self._task = self._loop.create_task(self._run(), name="follower")

    async def close(self) -> None:
        """Follow nothing any more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    def follow(self, key: AttemptKey, growth: Growth, size: int) -> None:
        """Begin to follow an attempt of ``size`` workers; a large one is looked at less often."""
        if key not in self._followed:
            least = min(LONGEST, INTERVAL * max(1.0, size / OFTEN))
            self._followed[key] = _Followed(growth, self._loop.time(), least, least)
            self._push(key)

    async def forget(self, key: AttemptKey, growth: Growth) -> None:
        """Follow an attempt no more; what it left untold is told before this returns."""
        followed = self._followed.pop(key, None)
        known = followed.growth if followed is not None else growth
        fresh = followed is None or followed.new
        for observation in await self._loop.run_in_executor(self._thread, _last, known, self._now(), fresh):
            self._tell(observation)

    def drop(self, key: AttemptKey) -> None:
        """Follow an attempt no more."""
        self._followed.pop(key, None)

    def hurry(self, key: AttemptKey) -> None:
        """Somebody reads of this attempt: look at it soon, and often for a while."""
        followed = self._followed.get(key)
        if followed is not None and followed.pause > followed.least:
            followed.pause = followed.least
            followed.due = self._loop.time() + followed.least
            self._push(key)

    def _push(self, key: AttemptKey) -> None:
        heapq.heappush(self._heap, (self._followed[key].due, key))
        self._more.set()

    async def _run(self) -> None:
        while True:
            batch = self._due()
            if batch:
                await self._look(batch)
                continue
            self._more.clear()
            timeout = max(0.0, self._heap[0][0] - self._loop.time()) if self._heap else None
            try:
                async with asyncio.timeout(timeout):
                    await self._more.wait()
            except TimeoutError:
                continue

    def _due(self) -> list[AttemptKey]:
        now = self._loop.time()
        batch: list[AttemptKey] = []
        while self._heap and self._heap[0][0] <= now and len(batch) < BATCH:
            due, key = heapq.heappop(self._heap)
            followed = self._followed.get(key)
            if followed is not None and followed.due == due:
                batch.append(key)
        return batch

    async def _look(self, batch: list[AttemptKey]) -> None:
        looked = [(key, self._followed[key]) for key in batch]
        todo = [(each.growth, each.new) for _, each in looked]
        found = await self._loop.run_in_executor(self._thread, _look_all, todo, self._now())
        for (key, followed), (observations, grew) in zip(looked, found, strict=True):
            followed.new = False
            if self._followed.get(key) is not followed:
                continue
            for observation in observations:
                self._tell(observation)
            followed.pause = followed.least if grew else min(LONGEST, followed.pause * 2)
            followed.due = self._loop.time() + followed.pause
            self._push(key)


def _look_all(todo: list[tuple[Growth, bool]], now: float) -> list[tuple[list[Observation], bool]]:
    return [_look(growth, now, new) for growth, new in todo]


def _look(growth: Growth, now: float, new: bool) -> tuple[list[Observation], bool]:
    try:
        if new:
            growth.read_all(now)
        return growth.look(now)
    except (OSError, ExecutorError) as error:
        log.warning("The files of a job cannot be read: %s", error)
        return [], False


def _last(growth: Growth, now: float, new: bool) -> list[Observation]:
    try:
        if new:
            growth.read_all(now)
        return growth.last_looks(now)
    except (OSError, ExecutorError) as error:
        log.warning("The files of a job cannot be read: %s", error)
        return []
