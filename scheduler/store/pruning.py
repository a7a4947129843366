"""Deletion of old rows, so that the store stays bounded."""

from __future__ import annotations

from sqlalchemy import Connection, Table, delete, exists, func, select

from springtide.scheduler.store import schema
from springtide.scheduler.store.forecasts import shown


def drop_jobs(connection: Connection, ids: list[str]) -> None:
    """Delete ended jobs, their attempts and the forecasts of their starts; of sweeps also their parameters."""
    if not ids:
        return
    parameters = schema.sweep_parameters
    connection.execute(delete(parameters).where(parameters.c.sweep.in_(ids)))
    shown.drop(connection, ids)
    connection.execute(delete(schema.attempts).where(schema.attempts.c.job.in_(ids)))
    connection.execute(delete(schema.jobs).where(schema.jobs.c.id.in_(ids), schema.jobs.c.ended.is_not(None)))


def drop_bundles(connection: Connection) -> None:
    """Delete bundles that no unfinished job uses."""
    used = exists().where(schema.jobs.c.bundle == schema.bundles.c.digest, schema.jobs.c.ended.is_(None))
    connection.execute(delete(schema.bundles).where(~used))


def keep_newest(connection: Connection, table: Table, keep: int) -> None:
    """Delete all rows of a journal but about the ``keep`` newest."""
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    if newest is not None:
        connection.execute(delete(table).where(table.c.id <= newest - keep))


def keep_decisions(connection: Connection, keep: int) -> None:
    """Delete all but the ``keep`` newest decisions and those from their base on."""
    table = schema.decisions
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    if newest is None:
        return
    base = connection.execute(select(func.min(table.c.base)).where(table.c.id > newest - keep)).scalar()
    connection.execute(delete(table).where(table.c.id < base))


def drop_audit(connection: Connection, before: float) -> None:
    """Delete audit entries older than ``before``, but never the newest entry."""
    table = schema.audit
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    connection.execute(delete(table).where(table.c.at < before, table.c.id != (newest or 0)))
