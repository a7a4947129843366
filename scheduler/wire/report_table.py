"""Reports as text that spreadsheets read."""

from __future__ import annotations

import csv
import io

from springtide.scheduler.wire.reports import REPORT_COLUMNS, Report
from springtide.scheduler.wire.run_table import cell


def report_csv(report: Report) -> str:
    """Return the rows of a report as CSV with all digits; what is unknown is empty.

    Names that begin like a formula get an apostrophe before them.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*report.by, *REPORT_COLUMNS])
    for row in report.rows:
        names = (" ".join(row.by[each].split()) for each in report.by)
        writer.writerow(map(cell, [*names, *(getattr(row, name) for name in REPORT_COLUMNS)]))
    return text.getvalue()
