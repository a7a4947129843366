"""Deletion of ended jobs: they leave the store at once, and their files soon after, or at the next start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from springtide.scheduler import wire
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.executors.base import Executor, ExecutorError
from springtide.scheduler.refusal import Refusal, unknown_job
from springtide.scheduler.store import pruning
from springtide.scheduler.store.queries import reading, trials
from springtide.scheduler.store.records import AuditQuery, AuditRecord, JobRecord
from springtide.scheduler.store.tables import DeletedJob
from springtide.scheduler.wording import given
from springtide.scheduler.workload import Workload

logger = logging.getLogger(__name__)

DELETED: Final = "job.delete"
"""The kind of entries of the audit trail about deletions."""
MOST_AT_ONCE: Final = 1000
"""Maximum number of deletions of one moment among which that of a job is looked for."""
BELONGS: Final = {
    Workload.TRIAL: ("a trial of a sweep", "sweep"),
    Workload.TEST_RUN: ("the test run of another job", "job"),
}
"""The kinds of work that are deleted with another job: what they are, and with what they are."""


def check(job: JobRecord) -> None:
    """Raise `Refusal` for a job that is not deleted: an unfinished one, or one that belongs to another."""
    if job.workload in BELONGS:
        what, whole = BELONGS[job.workload]
        other = job.sweep or job.spec.tests
        message = f"The job {given(job.id)} is {what}, and is deleted only with that {whole}."
        raise Refusal(409, "part", message, hint=f"Delete the {whole} {other}.")
    if not job.state.final:
        message = f"The job {given(job.id)} is {job.state}; only a job that has ended is deleted."
        raise Refusal(409, "active", message, hint=f"Cancel it first: springtide cancel {job.id}")


class Deletions:
    """Deletes ended jobs; ``request`` applies a change in a transaction. ``due`` is set while files wait."""

    def __init__(
        self,
        executor: Executor,
        state: State,
        store: StoreThreads,
        jobs: JobLookup,
        request: Callable[[Callable[[Transaction], Any]], Awaitable[Any]],
    ) -> None:
        self._executor = executor
        self._state = state
        self._threads = store
        self._jobs = jobs
        self._request = request
        self.due = asyncio.Event()

    async def measure(self, job_id: str) -> wire.Deletion:
        """Return what the deletion of a job would remove. Raises `Refusal` for one that is not deleted."""
        job = await self._jobs.get(job_id)
        check(job)
        ids = await self._with_parts(job)
        sizes = [await self._executor.size(each) for each in ids]
        return wire.Deletion(job=job.id, name=job.spec.name, jobs=len(ids), bytes=sum(sizes))

    async def delete(self, job_id: str, by: str) -> wire.Deletion:
        """Delete a job with its trials for the user ``by``: it is in no list any more when this returns.

        Its files are removed after that. Raises `Refusal` for a job that is not deleted.
        """
        job = await self._jobs.get(job_id)
        check(job)
        ids = await self._with_parts(job)

        def apply(transaction: Transaction) -> None:
            if job_id in transaction.deleted_jobs:
                raise unknown_job(job_id)
            transaction.delete_job(job, ids)
            before = {"user": job.spec.user, "name": job.spec.name, "project": job.spec.project, "jobs": len(ids)}
            transaction.add_audit_entry(by, DELETED, job_id, before, {}, project=job.spec.project)

        await self._request(apply)
        self.due.set()
        return wire.Deletion(job=job.id, name=job.spec.name, jobs=len(ids))

    async def entry(self, job_id: str) -> AuditRecord | None:
        """Return the entry of the audit trail about the deletion of a job, None if none is known."""
        deleted = self._state.deleted_jobs.get(job_id)
        if deleted is None:
            return None
        chosen = AuditQuery(what=DELETED, start=deleted.at - 1.0, end=deleted.at + 1.0)
        found = await self._threads.read(reading.audit, chosen, None, MOST_AT_ONCE)
        return next((each for each in found if each.subject == job_id), None)

    async def _with_parts(self, job: JobRecord) -> list[str]:
        """Return the ids of a job, of the trials of a sweep, and of its test run."""
        parts = await self._threads.read(trials.ids, job.id) if job.workload is Workload.SWEEP else []
        test = job.standing.test_run
        return [job.id, *parts, *([] if test is None else [test.job])]

    async def finish(self) -> None:
        """Remove the files of deleted jobs. One whose files cannot be removed does not keep the others.

        Raises `Refusal` if the store cannot be written.
        """
        self.due.clear()
        for deleted in [each for each in self._state.deleted_jobs.values() if each.files]:
            left = [each for each in deleted.files if not await self._is_removed(each)]
            if len(left) < len(deleted.files):
                await self._put(replace(deleted, files=tuple(left)))

    async def _is_removed(self, job_id: str) -> bool:
        try:
            await self._executor.remove(job_id)
        except ExecutorError as error:
            logger.warning("The files of the deleted job %s are removed later: %s", job_id, error)
            return False
        return True

    async def _put(self, deleted: DeletedJob) -> None:
        def apply(transaction: Transaction) -> None:
            transaction.deleted_jobs.put(deleted)
            transaction.require_commit()

        await self._request(apply)

    async def forget(self, ended_before: float) -> None:
        """Drop the records of the use of GPUs of deleted jobs that ended before that time.

        Raises `StoreError`, or `Refusal` if the store cannot be written.
        """
        old = [
            each.job for each in self._state.deleted_jobs.values() if each.ended < ended_before and not each.files
        ]
        for job_id in old:
            await self._threads.write(self._threads.store.write, pruning.drop_use, job_id)

        def apply(transaction: Transaction) -> None:
            for job_id in old:
                transaction.deleted_jobs.remove(job_id)
            transaction.require_commit()

        if old:
            await self._request(apply)
