"""The call that changes the tags of a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.tags.changes import changed_tags


class TagCalls:
    """Changes the tags of jobs, also of ended ones. ``request`` applies a change in a transaction."""

    def __init__(self, jobs: JobLookup, request: Callable[[Callable[[Transaction], Any]], Awaitable[Any]]) -> None:
        self._jobs = jobs
        self._request = request

    async def edit(self, job_id: str, edit: wire.TagsEdit, by: str) -> None:
        """Change the tags of a job for the user ``by``; that of another's job is audited. Raise `Refusal`."""
        found = await self._jobs.get(job_id)

        def apply(transaction: Transaction) -> None:
            job = transaction.job(job_id) or self._jobs.in_memory(job_id) or found
            tags = changed_tags(job.spec.tags, edit)
            if tags == job.spec.tags:
                return
            transaction.put_tags(job, tags)
            if by != job.spec.user:
                before = {"user": job.spec.user, "name": job.spec.name, "tags": list(job.spec.tags)}
                transaction.add_audit_entry(by, "job.tags", job_id, before, {"tags": list(tags)})

        await self._request(apply)
