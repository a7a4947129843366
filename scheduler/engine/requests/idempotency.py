"""Look-up of idempotency keys in the store, many in one query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from springtide.scheduler.engine.state.state import SubmissionKey
from springtide.scheduler.store.records import JobRecord

JobsByKey: TypeAlias = Mapping[SubmissionKey, JobRecord]
MAX_KEYS_PER_QUERY = 200


class IdempotencyLookup:
    """Finds the jobs that keys were accepted for. Keys that arrive during one query share the next.

    ``read`` returns the jobs of the keys that are in the store.
    """

    def __init__(self, read: Callable[[Sequence[SubmissionKey]], Awaitable[JobsByKey]]) -> None:
        self._read = read
        self._waiting: dict[SubmissionKey, asyncio.Future[JobRecord | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def job_of(self, key: SubmissionKey) -> JobRecord | None:
        """Return the job that a key was accepted for, None if there is none. Raises what ``read`` raises."""
        answer = self._waiting.get(key)
        if answer is None:
            answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_all(), name="submission keys")
        return await asyncio.shield(answer)

    async def _read_all(self) -> None:
        try:
            while self._waiting:
                asked = {key: self._waiting.pop(key) for key in list(self._waiting)[:MAX_KEYS_PER_QUERY]}
                await self._answer(asked)
        finally:
            self._reading = None

    async def _answer(self, asked: Mapping[SubmissionKey, asyncio.Future[JobRecord | None]]) -> None:
        reading = asyncio.ensure_future(self._read(list(asked)))
        await asyncio.wait([reading])
        error = reading.exception()
        for key, answer in asked.items():
            if error is None:
                answer.set_result(reading.result().get(key))
            else:
                answer.set_exception(error)
