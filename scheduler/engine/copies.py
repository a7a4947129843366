"""Copies of checkpoints for jobs without a record yet, forks and trials of a generation: none is left over."""

from __future__ import annotations

import logging
from collections.abc import Collection

from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.sweeps import controller
from springtide.scheduler.executors.base import Executor, ExecutorError
from springtide.scheduler.store import StoreError

logger = logging.getLogger(__name__)


class Copies:
    """Deletes the copies for jobs that get no record. Those that are held are left alone meanwhile."""

    def __init__(self, executor: Executor, state: State, jobs: JobLookup) -> None:
        self._executor = executor
        self._state = state
        self._jobs = jobs
        self._held: set[str] = set()

    def hold(self, job_ids: Collection[str]) -> None:
        """Leave the copies for these jobs alone: they are made, or the jobs' records are about to be."""
        self._held.update(job_ids)

    def release(self, job_ids: Collection[str]) -> None:
        """Let `settle` look at the copies for these jobs."""
        self._held.difference_update(job_ids)

    async def settle_held(self, job_ids: Collection[str]) -> None:
        """Release the copies for these jobs, and delete those that are for nothing; at the latest later."""
        for job_id in job_ids:
            try:
                await self._keep_or_delete(job_id)
            except (ExecutorError, StoreError, OSError) as error:
                text = "The copy of a checkpoint for the job %s is looked at again later: %s"
                logger.warning(text, job_id, error)
        self.release(job_ids)

    async def settle(self) -> None:
        """Delete the copies for jobs that were not accepted, such as those that a crash left.

        Raises `ExecutorError` or `StoreError`.
        """
        for job_id in await self._executor.unrecorded():
            if job_id not in self._held:
                await self._keep_or_delete(job_id)

    async def _keep_or_delete(self, job_id: str) -> None:
        if await self._jobs.look_up(job_id) is not None:
            await self._executor.recorded(job_id)
        elif not any(controller.is_to_begin(sweep, job_id) for sweep in self._state.jobs.values()):
            await self._executor.remove(job_id)
