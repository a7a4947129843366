"""Keeping the store bounded: what is old goes, a bounded piece at a time."""

from __future__ import annotations

from sqlalchemy import Connection, Table, delete, exists, func, select

from springtide.scheduler.store import schema


def drop_jobs(connection: Connection, ids: list[str]) -> None:
    """Forget ended jobs, their attempts, and bundles that no job uses any more."""
    if not ids:
        return
    connection.execute(delete(schema.attempts).where(schema.attempts.c.job.in_(ids)))
    connection.execute(delete(schema.jobs).where(schema.jobs.c.id.in_(ids), schema.jobs.c.ended.is_not(None)))
    used = exists().where(schema.jobs.c.bundle == schema.bundles.c.digest)
    connection.execute(delete(schema.bundles).where(~used))


def keep_newest(connection: Connection, table: Table, keep: int) -> None:
    """Forget all but about the ``keep`` newest rows of a journal."""
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    if newest is not None:
        connection.execute(delete(table).where(table.c.id <= newest - keep))


def keep_decisions(connection: Connection, keep: int) -> None:
    """Forget all but the newest decisions, keeping the base that the oldest kept one builds on."""
    table = schema.decisions
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    if newest is None:
        return
    base = connection.execute(select(func.min(table.c.base)).where(table.c.id > newest - keep)).scalar()
    connection.execute(delete(table).where(table.c.id < base))


def drop_audit(connection: Connection, before: float) -> None:
    """Forget audit entries older than ``before``, but never the newest entry."""
    table = schema.audit
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    connection.execute(delete(table).where(table.c.at < before, table.c.id != (newest or 0)))
