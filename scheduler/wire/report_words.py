"""Reports as people read them: the titles of their columns, their numbers, and the numbers about the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from springtide.scheduler.wire.reports import REPORT_COLUMNS, ReportBy, ReportColumn, ReportNumber, ReportRow
from springtide.scheduler.wording import amount, at_a_glance, duration, money

UNKNOWN: Final = "\N{EN DASH}"
NOT_NAMED: Final[Mapping[ReportBy, str]] = MappingProxyType(
    {ReportBy.PROJECT: "no project", ReportBy.PERSON: "not known", ReportBy.TYPE: "not known"}
)
"""Rows without a subject, or with an unknown one."""
_TITLES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "gpu_hours_held": ("held h", "GPU-hours held"),
        "gpu_hours_measured": ("measured h", "GPU-hours held by GPUs that reported how busy they were"),
        "gpu_hours_used": ("used h", "GPU-hours in which the GPUs computed"),
        "gpu_hours_quota": ("quota h", "GPU-hours of the quota"),
        "gpu_hours_borrowed": ("borrowed h", "GPU-hours held beyond the quota"),
        "gpu_hours_lent": ("lent h", "unused quota that others borrowed, in GPU-hours"),
        "idle_held_hours": ("idle h", "GPU-hours of hours with less than 10 % use of a GPU"),
        "jobs": ("jobs", "jobs that started for the first time"),
        "people": ("people", "people who held GPUs"),
        "wait_p50_s": ("wait, 50 %", "half of the jobs did not wait longer for their first start"),
        "wait_p95_s": ("wait, 95 %", "95 % of the jobs did not wait longer for their first start"),
        "pauses": ("pauses", "attempts that ended paused"),
        "lost_gpu_hours": ("lost h", "GPU-hours of paused and lost attempts after their last checkpoint"),
        "cost": ("cost", "the cost of the GPU-hours that had a price"),
    }
)


def columns(rows: Sequence[ReportRow], currency: str) -> list[ReportColumn]:
    """Return the columns in which something is known of a row; that of costs names their currency."""
    found = []
    for name in REPORT_COLUMNS:
        if _is_known(name, rows):
            title, hint = _TITLES[name]
            of = " ".join(currency.split()) if name == "cost" else ""
            found.append(ReportColumn(name=name, title=f"{title}, {of}" if of else title, hint=hint))
    return found


def _is_known(name: str, rows: Sequence[ReportRow]) -> bool:
    values = (getattr(row, name) for row in rows)
    return any(values) if name == "gpu_hours_measured" else any(value is not None for value in values)


def numbers(total: ReportRow, currency: str) -> list[ReportNumber]:
    """Return the numbers about a whole report that its readers look for first."""
    found: list[tuple[str, str | None]] = [
        ("GPU-hours held", at_a_glance(total.gpu_hours_held)),
        ("of them borrowed", at_a_glance(total.gpu_hours_borrowed)),
        ("used", None if total.gpu_hours_used is None else at_a_glance(total.gpu_hours_used)),
        ("jobs", amount(total.jobs)),
        ("people", amount(total.people)),
        ("median wait", None if total.wait_p50_s is None else duration(total.wait_p50_s)),
        ("95 % waited at most", None if total.wait_p95_s is None else duration(total.wait_p95_s)),
        ("cost", None if total.cost is None else " ".join([money(total.cost), *currency.split()])),
    ]
    return [ReportNumber(title=title, text=text) for title, text in found if text is not None]


def names(by: Sequence[ReportBy], row: ReportRow) -> list[str]:
    """Return what a row is about, in the order of the columns that the report is ``by``."""
    return [" ".join(row.by[each].split()) or NOT_NAMED.get(each, "") for each in by]


def cell(name: str, value: float | None) -> str:
    """Return a number of a row: hours have one decimal, small ones two significant digits."""
    if value is None:
        return UNKNOWN
    if name.startswith("wait"):
        return duration(value)
    if name == "cost":
        return money(value)
    if value == int(value):
        return amount(int(value))
    return at_a_glance(value) if abs(value) < 1 else f"{value:,.1f}"
