"""What a pool recorded of a span of time: jobs with all attempts, facts, and changes by people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, func, or_, select

from springtide.scheduler.store import codec, schema
from springtide.scheduler.store.ledger import EndedFact, FactKind, LedgerEntry
from springtide.scheduler.store.queries import ledger, reading
from springtide.scheduler.store.records import UNDO, AuditRecord, JobRecord
from springtide.scheduler.store.tables import Tables

CHANGES = (
    "node.drain",
    "node.undrain",
    "gpu.drain",
    "gpu.undrain",
    "project.change",
    "project.delete",
    "project.freeze",
    "project.unfreeze",
    "job.hold",
    "job.release",
    "job.pause",
    "job.resume",
    "budget.spent",
)
"""Kinds of entries of the audit trail that say when jobs could not run, or how the pool was."""
ROWS = 500


@dataclass(frozen=True, slots=True)
class Past:
    """The records of a span.

    ``jobs`` with GPUs have all their attempts; ``forgotten`` are entries of the ledger of jobs that were deleted.
    ``audit`` has all `CHANGES` before the end of the span, the oldest first; each undo is as what it did.
    """

    jobs: list[JobRecord]
    forgotten: list[LedgerEntry]
    facts: list[EndedFact]
    audit: list[AuditRecord]


def past(connection: Connection, start: float, end: float, now: float) -> Past:
    """Return the records of the time from ``start`` to ``end``."""
    table, entries, audit = schema.jobs, schema.ledger, schema.audit
    unfinished = or_(table.c.ended.is_(None), table.c.ended > start)
    rows = connection.execute(
        select(table.c.id, table.c.spec, table.c.standing)
        .where(table.c.gpus > 0, table.c.submitted < end, unfinished)
        .order_by(table.c.seq)
    ).all()
    jobs: list[JobRecord] = []
    for first in range(0, len(rows), ROWS):
        some: list[Any] = list(rows[first : first + ROWS])
        attempts = reading.attempts_of(connection, [row.id for row in some])
        jobs += [codec.job_record(row, tuple(attempts.get(row.id, ()))) for row in some]
    lost = select(entries).where(
        entries.c.end > start, entries.c.start < end, entries.c.job != "", entries.c.job.not_in(select(table.c.id))
    )
    kinds = [*CHANGES, *(f"{UNDO}{kind}" for kind in CHANGES)]
    changes = codec.audit.read(
        connection, select(audit).where(audit.c.what.in_(kinds), audit.c.at < end).order_by(audit.c.id)
    )
    return Past(
        jobs,
        codec.ledger.read(connection, lost.order_by(entries.c.id)),
        ledger.facts(connection, now),
        [replace(entry, what=entry.effect) for entry in changes],
    )


def recorded_since(connection: Connection) -> float | None:
    """Return since when the numbers of GPUs are recorded, in seconds since the epoch; None if they are not."""
    kinds = [FactKind.GPUS.value]
    ended, present = schema.ledger_facts.c, Tables.pool_facts.sql.c
    starts = (
        connection.execute(select(func.min(ended.start)).where(ended.kind.in_(kinds))).scalar(),
        connection.execute(select(func.min(present.since)).where(present.kind.in_(kinds))).scalar(),
    )
    return min((float(at) for at in starts if at is not None), default=None)
