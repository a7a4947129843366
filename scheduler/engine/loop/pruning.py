"""Removal of old records, so that the store stays bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from springtide.scheduler.engine.deletions import Deletions
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.executors.base import Executor, ExecutorError
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.settings import DAY
from springtide.scheduler.store import StoreError, ledger_writing, pruning
from springtide.scheduler.store.queries import reading, trials

logger = logging.getLogger(__name__)
JOBS_PER_TRANSACTION = 100
BUNDLES_EVERY = 60.0
"""Interval of the deletion of files that no job needs any more, in seconds."""


class Pruner:
    """Deletes ended jobs with their files, old events, decisions and audit entries, and files of no job.

    ``settle`` deletes the copies of checkpoints for jobs that were not accepted.
    """

    def __init__(
        self,
        store: StoreThreads,
        executor: Executor,
        settings: EngineSettings,
        clock: Callable[[], float],
        *,
        settle: Callable[[], Awaitable[None]],
        deletions: Deletions,
    ) -> None:
        self._threads = store
        self._store = store.store
        self._executor = executor
        self._settings = settings
        self._clock = clock
        self._settle = settle
        self._deletions = deletions

    async def run(self) -> None:
        """Prune at the interval of the settings, and unneeded files more often, until cancelled."""
        pruned = float("-inf")
        while True:
            now = asyncio.get_running_loop().time()
            due = [self._deletions.finish, self._settle, self._drop_files]
            if now >= pruned + self._settings.prune_every:
                pruned = now
                due.append(self.prune)
            for work in due:
                try:
                    await work()
                except (StoreError, ExecutorError, Refusal) as error:
                    logger.warning("Old jobs could not be deleted: %s", error)
                except Exception:
                    logger.exception("Old jobs could not be deleted, and are again later")
            with suppress(TimeoutError):
                async with asyncio.timeout(min(BUNDLES_EVERY, self._settings.prune_every)):
                    await self._deletions.due.wait()

    async def _drop_files(self) -> None:
        now, settings = self._clock(), self._settings
        ended_before = now - settings.keep_files_days * DAY
        await self._threads.write(self._store.drop_bundles, ended_before, settings.ended_bytes_per_user, now)

    async def prune(self) -> None:
        """Delete all that is older than the settings keep. Raises `StoreError` or `ExecutorError`."""
        now, settings = self._clock(), self._settings
        while ids := await self._threads.write(
            self._store.read, reading.ended_before, now - settings.keep_days * DAY, JOBS_PER_TRANSACTION
        ):
            for job_id in ids:
                await self._remove(await self._threads.read(trials.ids, job_id))
            await self._remove(ids)
        await self._deletions.forget(now - settings.keep_days * DAY)
        await self._threads.write(self._prune_journals, now)
        await self._threads.write(self._store.write, ledger_writing.prune, now - settings.keep_ledger_days * DAY)

    async def _remove(self, ids: Sequence[str]) -> None:
        """Delete jobs with their files."""
        for first in range(0, len(ids), JOBS_PER_TRANSACTION):
            some = list(ids[first : first + JOBS_PER_TRANSACTION])
            for job_id in some:
                await self._executor.remove(job_id)
            await self._threads.write(self._store.write, pruning.drop_jobs, some)

    def _prune_journals(self, now: float) -> None:
        settings = self._settings
        self._store.write(
            pruning.prune_journals,
            events=settings.keep_events,
            decisions=settings.keep_decisions,
            audit_before=now - settings.keep_audit,
        )
