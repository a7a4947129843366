"""Submission keys looked up in the store, many at once: those that come while one query runs share the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from springtide.scheduler.store.records import JobRecord

Key: TypeAlias = tuple[str, str]
"""A user and her submission's key."""
Found: TypeAlias = Mapping[Key, JobRecord]
MOST_AT_ONCE = 200


class KeyLookup:
    """``read`` looks up keys and answers the jobs that they were accepted for."""

    def __init__(self, read: Callable[[Sequence[Key]], Awaitable[Found]]) -> None:
        self._read = read
        self._waiting: dict[Key, asyncio.Future[JobRecord | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def find(self, key: Key) -> JobRecord | None:
        """The job that a key was accepted for. Raises what ``read`` raises."""
        answer = self._waiting.get(key)
        if answer is None:
            answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_all(), name="submission keys")
        return await asyncio.shield(answer)

    async def _read_all(self) -> None:
        try:
            while self._waiting:
                asked = {key: self._waiting.pop(key) for key in list(self._waiting)[:MOST_AT_ONCE]}
                await self._answer(asked)
        finally:
            self._reading = None

    async def _answer(self, asked: Mapping[Key, asyncio.Future[JobRecord | None]]) -> None:
        reading = asyncio.ensure_future(self._read(list(asked)))
        await asyncio.wait([reading])
        error = reading.exception()
        for key, answer in asked.items():
            if error is None:
                answer.set_result(reading.result().get(key))
            else:
                answer.set_exception(error)
