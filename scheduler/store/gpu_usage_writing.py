"""Writes of measured use: one transaction for each interval, which also drops what is too old."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from springtide.scheduler.gpu_reading import METRICS
from springtide.scheduler.store import schema
from springtide.scheduler.store.gpu_usage import FINE, HOUR, KEPT, MINUTE, UsageRecord, downsample
from springtide.scheduler.store.queries import usage

_table = schema.gpu_usage


def save(connection: Connection, records: Sequence[UsageRecord], now: float) -> None:
    """Write the records of one interval, those of longer intervals that are complete, and drop what is too old.

    Records of the same interval, from before a restart, are replaced.
    """
    for at in {record.at for record in records}:
        connection.execute(delete(_table).where(_table.c.step == FINE, _table.c.at == at))
    _insert(connection, records)
    for shorter, longer in ((FINE, MINUTE), (MINUTE, HOUR)):
        _complete(connection, shorter, longer, now)


def _complete(connection: Connection, shorter: int, longer: int, now: float) -> None:
    """Write the longer intervals that ended since the last one that was written."""
    newest = connection.execute(select(func.max(_table.c.at)).where(_table.c.step == longer)).scalar()
    start = 0 if newest is None else newest + longer
    end = int(now) // longer * longer
    records = usage.between(connection, shorter, start, end)
    if records:
        _insert(connection, downsample(records, longer))
        connection.execute(delete(_table).where(_table.c.step == shorter, _table.c.at < now - KEPT[shorter]))


def _insert(connection: Connection, records: Sequence[UsageRecord]) -> None:
    if records:
        connection.execute(insert(_table), [_row(record) for record in records])


def _row(record: UsageRecord) -> dict[str, Any]:
    return {
        "step": record.step,
        "at": record.at,
        "seconds": record.seconds,
        **record.key._asdict(),
        "simulated": record.simulated,
        "memory_peak": record.memory_peak,
        **{name: getattr(record.reading, name) for name in METRICS},
    }
