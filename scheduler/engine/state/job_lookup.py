"""Look-up of any job: unfinished, ended lately, or ended long ago."""

from __future__ import annotations

from collections.abc import Iterable

from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.refusal import unknown_job
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import JobRecord

MAX_ENDED = 512
"""Maximum number of ended jobs in memory."""


class JobLookup:
    """Finds the committed record of a job, in memory or in the store."""

    def __init__(self, state: State, store: StoreThreads) -> None:
        self._state = state
        self._threads = store
        self._ended: LruCache[str, JobRecord] = LruCache(MAX_ENDED)

    def remember_ended(self, job: JobRecord) -> None:
        """Keep a job in memory if it has ended."""
        if job.state.final:
            self._ended.put(job.id, job)

    def forget(self, ids: Iterable[str]) -> None:
        """Forget jobs that were deleted."""
        for job_id in ids:
            self._ended.discard(job_id)

    def forget_ended(self) -> None:
        """Read ended jobs from the store again: their owner has another name."""
        self._ended = LruCache(MAX_ENDED)

    def in_memory(self, job_id: str) -> JobRecord | None:
        """Return a job that is unfinished or has ended lately."""
        return self._state.jobs.get(job_id) or self._ended.get(job_id)

    async def look_up(self, job_id: str) -> JobRecord | None:
        """Return a job, None if there is none with this id. Raises `StoreError`."""
        return self.in_memory(job_id) or await self._threads.read(reading.job, job_id)

    async def get(self, job_id: str) -> JobRecord:
        """Return a job. Raises `Refusal` (404) if there is none with this id, and `StoreError`."""
        job = await self.look_up(job_id)
        if job is None:
            raise unknown_job(job_id)
        return job
