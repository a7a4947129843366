"""Reports of the use of the pool, from its ledger."""

from __future__ import annotations

from enum import StrEnum

from springtide.scheduler.wire.csv_text import csv_text
from springtide.scheduler.wire.shapes import Answer, Request


class ReportBy(StrEnum):
    """What a report has rows by; those of times are in UTC."""

    PROJECT = "project"
    PERSON = "person"
    TYPE = "type"
    KIND = "kind"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


class ReportRow(Answer, frozen=True, kw_only=True, gc=False):
    """A row of a report. ``by`` has the value of each `ReportBy` that the report is by.

    Hours are GPU-hours. In those that are ``measured`` the GPUs have reported their utilization: ``used`` is the
    part in which they computed, ``idle`` that of hours in which a holder used a GPU less than 10 %; None if
    nothing was measured. ``gpu_hours_quota`` is None where quotas say nothing, as for people; so is
    ``gpu_hours_lent``, unused quota that others borrowed. ``jobs`` started for the first time, after waits with
    these percentiles. ``pauses`` counts attempts that ended paused, ``lost_gpu_hours`` has the run time of paused
    and lost attempts after their last known checkpoint. ``cost`` is that of the GPU-hours with a price, None if
    none had one.
    """

    by: dict[str, str]
    gpu_hours_held: float = 0.0
    gpu_hours_measured: float = 0.0
    gpu_hours_used: float | None = None
    gpu_hours_quota: float | None = None
    gpu_hours_borrowed: float = 0.0
    gpu_hours_lent: float | None = None
    idle_held_hours: float | None = None
    jobs: int = 0
    people: int = 0
    wait_p50_s: float | None = None
    wait_p95_s: float | None = None
    pauses: int = 0
    lost_gpu_hours: float = 0.0
    cost: float | None = None


REPORT_COLUMNS = tuple(name for name in ReportRow.__struct_fields__ if name != "by")
"""The columns of a report after those that it is by."""


class ReportColumn(Answer, frozen=True, kw_only=True):
    """A column of a report in which something is known: its name, its title, and what its numbers are."""

    name: str
    title: str
    hint: str = ""


class ReportNumber(Answer, frozen=True, kw_only=True):
    """A number about a whole report, as people read it."""

    title: str
    text: str


class Report(Answer, frozen=True, kw_only=True):
    """The use of the pool that the caller may see, from the day ``start`` to the day ``end``, included, in UTC.

    ``total`` sums up all rows; costs are in the ``currency``, empty if none is set. For readers there are the
    ``columns`` in which something is known, the ``numbers`` about all of it, and ``notable`` sentences
    about projects, in reports by project, and ``notes`` about what the numbers leave out. ``simulated`` says that
    GPUs of the pool are simulated now, so that what they used is processor time. ``scope`` says whose use it has,
    empty for that of all.
    """

    start: str
    end: str
    by: list[ReportBy]
    rows: list[ReportRow]
    total: ReportRow
    columns: list[ReportColumn]
    numbers: list[ReportNumber]
    notable: list[str]
    notes: list[str]
    simulated: bool
    currency: str = ""
    scope: str = ""


class ReportMail(Request, frozen=True, kw_only=True):
    """A report to send to the caller by e-mail: its days, by default the last month, and what it is by."""

    start: str | None = None
    end: str | None = None
    by: str = "project"


def report_csv(report: Report) -> str:
    """Return the rows of a report as CSV with all digits; unknown values are empty."""
    names = ([" ".join(row.by[each].split()) for each in report.by] for row in report.rows)
    values = ([getattr(row, name) for name in REPORT_COLUMNS] for row in report.rows)
    rows = ([*own, *given] for own, given in zip(names, values, strict=True))
    return csv_text([*report.by, *REPORT_COLUMNS], rows)
