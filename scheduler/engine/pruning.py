"""Keeping the store bounded: what is old goes, a piece at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from springtide.scheduler.engine.loop import Parts
from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.store import StoreError

logger = logging.getLogger(__name__)
JOBS_AT_ONCE = 100


class Pruner:
    """Forgets ended jobs with all their files, old events, decisions and audit entries."""

    def __init__(self, parts: Parts, write: Callable[..., Awaitable[Any]]) -> None:
        self._store = parts.store
        self._executor = parts.executor
        self._settings = parts.settings
        self._clock = parts.clock
        self._write = write

    async def run(self) -> None:
        """Prune now and then, until cancelled."""
        while True:
            try:
                await self.once()
            except (StoreError, ExecutorError) as error:
                logger.warning("Old jobs could not be forgotten: %s", error)
            await asyncio.sleep(self._settings.prune_every)

    async def once(self) -> None:
        """Prune all that is old enough."""
        now, keep = self._clock(), self._settings
        while ids := await self._write(self._store.ended_before, now - keep.keep_jobs, JOBS_AT_ONCE):
            for job_id in ids:
                await self._executor.remove(job_id)
            await self._write(self._store.drop_jobs, ids)
        await self._write(self._prune, now)

    def _prune(self, now: float) -> None:
        keep = self._settings
        self._store.prune(
            events=keep.keep_events, decisions=keep.keep_decisions, audit_before=now - keep.keep_audit
        )
