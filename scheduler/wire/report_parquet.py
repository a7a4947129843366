"""Reports as Parquet files, with typed columns; needs the package pyarrow."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from springtide.scheduler.wire.reports import REPORT_COLUMNS, Report, ReportBy

if TYPE_CHECKING:
    import pyarrow as pa

WHOLE: Final = frozenset({"jobs", "people", "pauses"})
"""The columns of whole numbers."""
_TIMES: Final[Mapping[ReportBy, Callable[[str], datetime | date | int]]] = MappingProxyType(
    {
        ReportBy.HOUR: lambda text: datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC),
        ReportBy.DAY: date.fromisoformat,
        ReportBy.WEEK: date.fromisoformat,
        ReportBy.MONTH: lambda text: date.fromisoformat(f"{text}-01"),
        ReportBy.YEAR: int,
    }
)
"""Columns of times: an hour is a moment in UTC, a day, week and month the date of its first day."""


def report_parquet(report: Report) -> bytes:
    """Return the rows of a report as a Parquet file. Raises `ImportError` without pyarrow.

    Unknown values are null. The file's metadata have the days and the currency of the report.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    columns: dict[str, pa.Array] = {}
    for each in report.by:
        read: Callable[[str], Any] = _TIMES.get(each, str)
        columns[each.value] = pa.array([read(row.by[each]) for row in report.rows], _type_of(each))
    for name in REPORT_COLUMNS:
        kind = pa.int64() if name in WHOLE else pa.float64()
        columns[name] = pa.array([getattr(row, name) for row in report.rows], kind)
    about = {"start": report.start, "end": report.end, "currency": report.currency}
    table = pa.table(columns).replace_schema_metadata(about)
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _type_of(by: ReportBy) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415

    if by is ReportBy.HOUR:
        return pa.timestamp("ms", tz="UTC")
    if by is ReportBy.YEAR:
        return pa.int32()
    return pa.date32() if by in _TIMES else pa.string()
