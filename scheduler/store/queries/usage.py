"""Queries of measured use."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, case, false, func, or_, select

from springtide.scheduler.gpu_reading import METRICS
from springtide.scheduler.store import schema
from springtide.scheduler.store.gpu_usage import FINE, HOUR, MINUTE, UsageKey, UsageRecord, UsageSum
from springtide.scheduler.store.rows import Rows

MOST_SUMS = 5_000
"""Maximum number of sums that a query returns: the use of those that held the most."""

_table = schema.gpu_usage
rows = Rows(
    _table,
    UsageRecord,
    fields={
        **{name: f"key.{name}" for name in UsageKey.__struct_fields__},
        **{name: f"reading.{name}" for name in METRICS},
    },
)


def between(connection: Connection, step: int, start: float, end: float) -> list[UsageRecord]:
    """Return the intervals of ``step`` seconds from ``start`` until before ``end``."""
    wanted = select(_table).where(_table.c.step == step, _table.c.at >= start, _table.c.at < end)
    return rows.read(connection, wanted)


def newest(connection: Connection) -> list[UsageRecord]:
    """Return the newest interval of `FINE` seconds; nothing if none is kept."""
    at = select(func.max(_table.c.at)).where(_table.c.step == FINE).scalar_subquery()
    return rows.read(connection, select(_table).where(_table.c.step == FINE, _table.c.at == at))


def of_job(connection: Connection, job: str, step: int, start: float, end: float) -> list[UsageRecord]:
    """Return those of a job, in the order of time, and shorter ones since the last that is complete."""
    wanted = select(_table).where(_table.c.job == job, _during(connection, step, start, end))
    return rows.read(connection, wanted.order_by(_table.c.at, _table.c.gpu))


def sums(
    connection: Connection, by: Sequence[str], step: int, start: float, end: float, *, kinds: Sequence[str]
) -> list[UsageSum]:
    """Return the use from ``start`` until before ``end``, by fields of `UsageKey`, the most held first."""
    columns = [_table.c[name] for name in by]
    held = func.sum(_table.c.seconds)
    measured = func.sum(case((_table.c.utilization.is_(None), 0), else_=_table.c.seconds))
    used = func.sum(func.coalesce(_table.c.utilization, 0.0) * _table.c.seconds)
    simulated = func.max(case((_table.c.simulated, 1), else_=0))
    wanted = (
        select(*columns, held, measured, used, func.max(_table.c.memory_peak), simulated)
        .where(_during(connection, step, start, end), _table.c.kind.in_(kinds))
        .group_by(*columns)
        .order_by(held.desc(), *columns)
        .limit(MOST_SUMS)
    )
    size = len(by)
    return [
        UsageSum(
            UsageKey(**{"gpu": "", **dict(zip(by, row[:size], strict=True))}),
            held=float(row[size]),
            measured=float(row[size + 1]),
            used=float(row[size + 2]),
            memory_peak=row[size + 3],
            simulated=bool(row[size + 4]),
        )
        for row in connection.execute(wanted)
    ]


def workspaces_used(connection: Connection, utilization: float) -> dict[tuple[str, str], float]:
    """Return when each workspace last used its GPUs by at least ``utilization``, from 0 to 1, as far as is known.

    Keys are user and server, times the ends of intervals of `FINE` seconds, which are kept for a day.
    """
    wanted = (
        select(_table.c.user, _table.c.server, func.max(_table.c.at))
        .where(_table.c.step == FINE, _table.c.kind == "workspace", _table.c.utilization >= utilization)
        .group_by(_table.c.user, _table.c.server)
    )
    return {(user, server): float(at + FINE) for user, server, at in connection.execute(wanted)}


def _during(connection: Connection, step: int, start: float, end: float) -> ColumnElement[bool]:
    """Return the condition of the intervals of ``step`` seconds from ``start`` until before ``end``.

    After the last of them that is complete, it is that of the next shorter intervals.
    """
    parts = []
    for length in (each for each in (HOUR, MINUTE, FINE) if each <= step):
        newest = connection.execute(select(func.max(_table.c.at)).where(_table.c.step == length)).scalar()
        until = end if length == FINE else 0 if newest is None else min(end, newest + length)
        if until > start:
            parts.append(and_(_table.c.step == length, _table.c.at >= start, _table.c.at < until))
            start = until
    return or_(false(), *parts)
