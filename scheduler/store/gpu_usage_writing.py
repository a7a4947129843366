"""Writing of measured use: one transaction for each interval, within the retention."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, select

from springtide.scheduler.store import schema
from springtide.scheduler.store.gpu_usage import FINE, HOUR, KEPT, MINUTE, UsageRecord, downsample
from springtide.scheduler.store.queries import usage

_table = schema.gpu_usage


def save(connection: Connection, records: Sequence[UsageRecord], now: float) -> None:
    """Write the records of one interval and of completed longer ones, and delete the expired ones.

    Records of the same interval, from before a restart, are replaced.
    """
    for at in {record.at for record in records}:
        connection.execute(delete(_table).where(_table.c.step == FINE, _table.c.at == at))
    usage.rows.insert(connection, records)
    for shorter, longer in ((FINE, MINUTE), (MINUTE, HOUR)):
        _complete(connection, shorter, longer, now)


def _complete(connection: Connection, shorter: int, longer: int, now: float) -> None:
    """Write the longer intervals that ended since the last one that was written."""
    newest = connection.execute(select(func.max(_table.c.at)).where(_table.c.step == longer)).scalar()
    start = 0 if newest is None else newest + longer
    end = int(now) // longer * longer
    records = usage.between(connection, shorter, start, end)
    if records:
        usage.rows.insert(connection, downsample(records, longer))
        connection.execute(delete(_table).where(_table.c.step == shorter, _table.c.at < now - KEPT[shorter]))
