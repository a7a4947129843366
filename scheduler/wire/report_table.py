"""Reports as text that spreadsheets read."""

from __future__ import annotations

from springtide.scheduler.wire.csv_text import csv_text
from springtide.scheduler.wire.reports import REPORT_COLUMNS, Report


def report_csv(report: Report) -> str:
    """Return the rows of a report as CSV with all digits; unknown values are empty."""
    names = ([" ".join(row.by[each].split()) for each in report.by] for row in report.rows)
    values = ([getattr(row, name) for name in REPORT_COLUMNS] for row in report.rows)
    rows = ([*own, *given] for own, given in zip(names, values, strict=True))
    return csv_text([*report.by, *REPORT_COLUMNS], rows)
