"""The writes of a transaction, as the store takes them."""

from __future__ import annotations

from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.store.records import JobRecord, WriteBatch


def write_batch(transaction: Transaction) -> WriteBatch:
    """Return the writes of a transaction, and the reports that earlier ones did not write."""
    batch = WriteBatch(
        bundles=transaction.bundles,
        audit=transaction.audit,
        undone=transaction.undone_entries,
        records={overlay.table: overlay.changes for overlay in transaction.records.changed()},
        renamed=transaction.renamed,
        clock=transaction.clock,
        next_age=transaction.next_project_age,
        gpu_types={} if transaction.new_types is None else transaction.new_types.by_environment(),
        sweep_parameters=transaction.sweep_parameters,
        superseded=transaction.superseded,
        deleted_jobs=transaction.deleted_ids,
        entries=transaction.entries,
        ended_facts=transaction.ended_facts,
        marked_jobs=[transaction.jobs.get(job_id, job) for job_id, job in transaction.marked.items()],
    )
    for job in transaction.jobs.values():
        if job.id in transaction.new_jobs:
            batch.new_jobs.append(job)
        else:
            (batch.shifted_jobs if job.id in transaction.shifted else batch.jobs).append(job)
        if job.id in transaction.respecified:
            batch.respecified_jobs.append(job)
        _add_attempts(batch, transaction.state.jobs.get(job.id), job, unsaved=job.id in transaction.state.unsaved)
    for job_id in transaction.state.unsaved - transaction.jobs.keys():
        job = transaction.state.jobs[job_id]
        batch.jobs.append(job)
        batch.attempts.extend(job.attempts[-1:])
    return batch


def _add_attempts(batch: WriteBatch, before: JobRecord | None, after: JobRecord, *, unsaved: bool) -> None:
    """Add the attempts that differ from those of ``before``. Only the last two of a job can differ."""
    known = {attempt.number: attempt for attempt in before.attempts[-2:]} if before is not None else {}
    for attempt in after.attempts[-2:]:
        if attempt.number not in known:
            batch.new_attempts.append(attempt)
        elif unsaved or attempt is not known[attempt.number]:
            batch.attempts.append(attempt)
