"""The writes of a transaction, as the store takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.store.records import JobRecord, WriteBatch

K = TypeVar("K")
V = TypeVar("V")


def write_batch(transaction: Transaction) -> WriteBatch:
    """Return the writes of a transaction, and the reports that earlier ones did not write."""
    batch = WriteBatch(
        new_jobs=[],
        bundles=transaction.bundles,
        audit=transaction.audit,
        undone=transaction.undone_entries,
        notification_choices=list(transaction.notification_choices.values()),
        default_projects=transaction.default_projects,
        idle_rules=transaction.idle_rules,
        idle_records=transaction.idle_records,
        recent_use=list(transaction.recent_use.values()),
        renamed=transaction.renamed,
        hub_users=transaction.hub_users,
        hub_groups=transaction.hub_groups,
        clock=transaction.clock,
        next_age=transaction.next_project_age,
        gpu_types={} if transaction.new_types is None else transaction.new_types.by_environment(),
        sweep_parameters=transaction.sweep_parameters,
        superseded=transaction.superseded,
        tagged_jobs=[transaction.jobs.get(job_id, job) for job_id, job in transaction.tagged.items()],
    )
    for job in transaction.jobs.values():
        if job.id in transaction.new_jobs:
            batch.new_jobs.append(job)
        else:
            (batch.shifted_jobs if job.id in transaction.shifted else batch.jobs).append(job)
        if job.id in transaction.given:
            batch.given_jobs.append(job)
        _add_attempts(batch, transaction.state.jobs.get(job.id), job, unsaved=job.id in transaction.state.unsaved)
    for job_id in transaction.state.unsaved - transaction.jobs.keys():
        job = transaction.state.jobs[job_id]
        batch.jobs.append(job)
        batch.attempts.extend(job.attempts[-1:])
    _split(transaction.projects, batch.projects, batch.dropped_projects)
    _split(transaction.people, batch.people, batch.dropped_people)
    _split(transaction.workspaces, batch.workspaces, batch.dropped_workspaces)
    _split(transaction.drains, batch.drains, batch.dropped_drains)
    _split(transaction.gpu_drains, batch.gpu_drains, batch.dropped_gpu_drains)
    return batch


def _split(changes: Mapping[K, V | None], changed: list[V], dropped: list[K]) -> None:
    """Append changes to the values that are written and to the keys that are dropped."""
    for key, value in changes.items():
        dropped.append(key) if value is None else changed.append(value)


def _add_attempts(batch: WriteBatch, before: JobRecord | None, after: JobRecord, *, unsaved: bool) -> None:
    """Add the attempts that differ from those of ``before``. Only the last two of a job can differ."""
    known = {attempt.number: attempt for attempt in before.attempts[-2:]} if before is not None else {}
    for attempt in after.attempts[-2:]:
        if attempt.number not in known:
            batch.new_attempts.append(attempt)
        elif unsaved or attempt is not known[attempt.number]:
            batch.attempts.append(attempt)
