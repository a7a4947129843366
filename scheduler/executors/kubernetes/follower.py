"""Polls the files of running attempts: they grow on other machines, which send no notification."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from springtide.scheduler.backoff import Backoff, no_jitter
from springtide.scheduler.executors.base import AttemptKey, ExecutorError, Observation
from springtide.scheduler.executors.files.tail import Tail

log = logging.getLogger(__name__)

INTERVAL = 0.25
"""Shortest polling interval of an attempt, in seconds."""
LONGEST_INTERVAL = 10.0
"""Longest polling interval of an attempt among few, in seconds."""
MAX_QUIET_POLLS = 100
"""Number of polls a second of attempts whose files do not grow, above which the longest interval grows instead."""
PAUSE = 0.1
"""Time in which polls that become due are collected into one, in seconds."""
WORKERS_PER_INTERVAL = 16
"""Number of workers above which the shortest polling interval of an attempt grows with its size."""
BATCH = 64
"""Maximum number of attempts that are polled before others have their turn."""


@dataclass(slots=True)
class _Followed:
    """An attempt under polling. ``new`` belongs to the reading thread: earlier reports are still to be read."""

    tail: Tail
    due: float
    intervals: Backoff
    new: bool = True
    ended: bool = False


class Follower:
    """Polls attempts until they end: often while their files grow, ever more rarely while they do not.

    ``report`` gets the observations; ``now`` is the wall clock for reports. Files are read in a thread of its own.
    """

    def __init__(self, report: Callable[[Observation], None], now: Callable[[], float]) -> None:
        self._report = report
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._followed: dict[AttemptKey, _Followed] = {}
        self._heap: list[tuple[float, AttemptKey]] = []
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="follower")
        self._task = self._loop.create_task(self._run(), name="follower")

    async def close(self) -> None:
        """Stop polling."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    def follow(self, key: AttemptKey, tail: Tail, size: int) -> None:
        """Poll an attempt of ``size`` workers from now on, unless it is polled already."""
        if key not in self._followed:
            shortest = min(LONGEST_INTERVAL, INTERVAL * max(1.0, size / WORKERS_PER_INTERVAL))
            intervals = Backoff(shortest, LONGEST_INTERVAL, jitter=no_jitter)
            self._followed[key] = _Followed(tail, self._loop.time() + INTERVAL, intervals)
            self._schedule(key)

    def follows(self, key: AttemptKey) -> bool:
        """Return whether an attempt is polled."""
        return key in self._followed

    async def finish(self, key: AttemptKey, tail: Tail, size: int) -> Tail:
        """Stop polling an ended attempt, after reporting the rest of its files.

        Return the tail that has read them. A poll under way reports its observations first:
        the last read does not find them again.
        """
        self.follow(key, tail, size)
        followed = self._followed[key]
        followed.ended = True
        rest = await self._loop.run_in_executor(self._thread, _read_rest, followed, self._now())
        self.unfollow(key)
        for observation in rest:
            self._report(observation)
        return followed.tail

    def unfollow(self, key: AttemptKey) -> None:
        """Stop polling an attempt."""
        self._followed.pop(key, None)

    def hurry(self, key: AttemptKey) -> None:
        """Poll an attempt soon and often again, because a user reads its output."""
        followed = self._followed.get(key)
        if followed is not None and not followed.ended:
            followed.intervals.reset()
            due = self._loop.time() + followed.intervals.next_delay()
            if due < followed.due:
                followed.due = due
                self._schedule(key)

    def _schedule(self, key: AttemptKey) -> None:
        heapq.heappush(self._heap, (self._followed[key].due, key))
        self._changed.set()

    async def _run(self) -> None:
        while True:
            batch = self._pop_due()
            if batch:
                await self._poll(batch)
                if len(batch) < BATCH:
                    await asyncio.sleep(PAUSE)
                continue
            self._changed.clear()
            timeout = max(0.0, self._heap[0][0] - self._loop.time()) if self._heap else None
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _pop_due(self) -> list[AttemptKey]:
        now = self._loop.time()
        batch: list[AttemptKey] = []
        while self._heap and self._heap[0][0] <= now and len(batch) < BATCH:
            due, key = heapq.heappop(self._heap)
            followed = self._followed.get(key)
            if followed is not None and followed.due == due and not followed.ended:
                batch.append(key)
        return batch

    async def _poll(self, batch: list[AttemptKey]) -> None:
        polled = [(key, self._followed[key]) for key in batch]
        read = partial(_read_all, [each for _, each in polled], self._now())
        results = await self._loop.run_in_executor(self._thread, read)
        for (key, followed), (observations, grew) in zip(polled, results, strict=True):
            if self._followed.get(key) is not followed:
                continue
            for observation in observations:
                self._report(observation)
            if followed.ended:
                continue
            if grew:
                followed.intervals.reset()
            delay = followed.intervals.next_delay()
            if delay >= LONGEST_INTERVAL:
                delay = max(delay, len(self._followed) / MAX_QUIET_POLLS)
            followed.due = self._loop.time() + delay
            self._schedule(key)


def _read_all(batch: list[_Followed], now: float) -> list[tuple[list[Observation], bool]]:
    return [_read(followed, now) for followed in batch]


def _read(followed: _Followed, now: float) -> tuple[list[Observation], bool]:
    try:
        _read_history(followed, now)
        return followed.tail.read_new(now)
    except (OSError, ExecutorError) as error:
        log.warning("The files of a job cannot be read: %s", error)
        return [], False


def _read_rest(followed: _Followed, now: float) -> list[Observation]:
    try:
        _read_history(followed, now)
        return followed.tail.read_rest(now)
    except (OSError, ExecutorError) as error:
        log.warning("The files of a job cannot be read: %s", error)
        return []


def _read_history(followed: _Followed, now: float) -> None:
    if followed.new:
        followed.new = False
        followed.tail.read_history(now)
