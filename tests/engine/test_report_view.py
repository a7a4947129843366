"""Reports: what the ledger says becomes a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine.views import report_view
from springtide.scheduler.store.ledger import (
    DAY,
    HOUR,
    Account,
    Accounts,
    EndedFact,
    FactKind,
    Group,
    Lot,
    Place,
    Rollup,
    Sums,
)
from springtide.scheduler.store.queries.ledger import Intervals
from springtide.scheduler.wire import ReportBy

FIRST, LAST = date(2026, 9, 28), date(2026, 10, 4)
START = int(datetime(2026, 9, 28, tzinfo=UTC).timestamp())
SUSAN, JOE, DESK = (
    Group("vision", "susan", "training", "t4"),
    Group("speech", "joe", "trial", "a100"),
    Group("", "susan", "workspace", "t4"),
)


def sums(group: Group, day: int, **values: float) -> Rollup:
    """Return the sums of a day, in GPU-hours."""
    whole = {name: value if name in {"jobs", "pauses", "cost"} else value * HOUR for name, value in values.items()}
    return Rollup(DAY, START + day * DAY, group, Sums(**whole))  # type: ignore[arg-type]


def quota(project: str, value: float | None, start: float, end: float, gpu_type: str = "t4") -> EndedFact:
    """Return a quota from one day of the report to another."""
    return EndedFact(0, FactKind.QUOTA, project, gpu_type, value, START + start * DAY, START + end * DAY)


class Held(NamedTuple):
    """What was held: sums of days or hours, waits of jobs by when they started, and quotas."""

    sums: Sequence[Rollup]
    waits: Sequence[tuple[int, Group, float]]
    facts: Sequence[EndedFact]


def accounts_of(held: Held, by: Sequence[ReportBy]) -> Accounts:
    """Return the accounts in which something was held, row by row."""
    intervals = Intervals(report_view.step_of(by), report_view.bounds(by, FIRST, LAST))
    rows: defaultdict[Place, Account] = defaultdict(Account)
    total, people = Account(), defaultdict[Place | None, set[str]](set)
    lots: dict[Lot, tuple[float, float]] = {}

    def place_of(at: int, group: Group) -> Place:
        return intervals.begin(at), tuple(getattr(group, name) for name in report_view.fields_of(by))

    for each in held.sums:
        place, group = place_of(each.at, each.group), each.group
        for account, where in ((rows[place], place), (total, None)):
            account.sums.add(each.sums)
            people[where].add(group.user)
        if group.project:
            lots[each.at, group.project, group.gpu_type] = each.sums.held, each.sums.borrowed
    for at, group, wait in held.waits:
        for account in (rows[place_of(at, group)], total):
            account.waits = sorted([*account.waits, wait])
    for place, row in rows.items():
        row.people = len(people[place])
    total.people = len(people[None])
    unpriced = {each.group.gpu_type for each in held.sums if each.sums.held - each.sums.priced > 1.0}
    return Accounts(dict(rows), total, frozenset(unpriced), lots, list(held.facts))


ACCOUNTS = Held(
    [
        sums(SUSAN, 0, held=10.0, borrowed=4.0, jobs=2, pauses=1, lost=0.5, priced=10.0, cost=5.0),
        sums(SUSAN, 4, held=6.0, measured=4.0, used=3.0, idle=1.0),
        sums(JOE, 3, held=2.0, jobs=1),
        sums(DESK, 3, held=1.0),
    ],
    [(START + 60, SUSAN, 100.0), (START + 70, SUSAN, 300.0), (START + 3 * DAY, JOE, 10.0)],
    [quota("vision", 2.0, 0, 2), quota("vision", 4.0, 2, 7), quota("nlp", 1.0, 5, 7), quota("idle", 0.0, 0, 7)],
)


def report(*by: ReportBy, held: Held = ACCOUNTS, now: float = START + 7 * DAY) -> wire.Report:
    return report_view.report(accounts_of(held, by), by, FIRST, LAST, now=now)


def column(found: wire.Report, name: str) -> dict[tuple[str, ...], Any]:
    return {tuple(row.by.values()): getattr(row, name) for row in found.rows}


def test_rows_are_summed_up_by_project() -> None:
    found = report(ReportBy.PROJECT)
    assert column(found, "gpu_hours_held") == {("",): 1.0, ("nlp",): 0.0, ("speech",): 2.0, ("vision",): 16.0}
    vision = found.rows[-1]
    assert (vision.gpu_hours_borrowed, vision.jobs, vision.people, vision.pauses) == (4.0, 2, 1, 1)
    assert (vision.lost_gpu_hours, vision.cost) == (0.5, 5.0)
    assert (vision.wait_p50_s, vision.wait_p95_s) == (100.0, 300.0)
    assert (found.total.gpu_hours_held, found.total.people, found.total.wait_p50_s) == (19.0, 2, 100.0)


def test_what_was_not_measured_is_not_zero() -> None:
    found = report(ReportBy.PROJECT)
    assert column(found, "gpu_hours_used") == {("",): None, ("nlp",): None, ("speech",): None, ("vision",): 3.0}
    assert column(found, "idle_held_hours") == {("",): None, ("nlp",): None, ("speech",): None, ("vision",): 1.0}
    assert column(found, "gpu_hours_measured") == {("",): 0.0, ("nlp",): 0.0, ("speech",): 0.0, ("vision",): 4.0}
    assert found.notes[0] == "Use was measured for 21% of the GPU-hours held; an hour is added after its end."
    assert report(held=Held([sums(JOE, 0, held=1.0)], [], [])).notes == [
        "No use of these GPU-hours is measured so far; an hour is added after its end."
    ]


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        (ReportBy.DAY, ["2026-09-28", "2026-10-01", "2026-10-02"]),
        (ReportBy.WEEK, ["2026-W40"]),
        (ReportBy.MONTH, ["2026-09", "2026-10"]),
        (ReportBy.YEAR, ["2026"]),
        (ReportBy.PERSON, ["joe", "susan"]),
        (ReportBy.TYPE, ["a100", "t4"]),
        (ReportBy.KIND, ["training", "trial", "workspace"]),
    ],
)
def test_rows_are_by_what_is_asked_for(by: ReportBy, labels: list[str]) -> None:
    found = report(by)
    assert [row.by[by] for row in found.rows] == labels
    assert sum(row.gpu_hours_held for row in found.rows) == 19.0
    assert sum(row.jobs for row in found.rows) == 3


def test_rows_by_several_things_are_in_their_order() -> None:
    found = report(ReportBy.MONTH, ReportBy.PERSON)
    assert column(found, "gpu_hours_held") == {
        ("2026-09", "susan"): 10.0,
        ("2026-10", "joe"): 2.0,
        ("2026-10", "susan"): 7.0,
    }
    assert column(found, "wait_p50_s") == {
        ("2026-09", "susan"): 100.0,
        ("2026-10", "joe"): 10.0,
        ("2026-10", "susan"): None,
    }


def test_hours_come_from_sums_by_hour() -> None:
    hourly = Held(
        [Rollup(HOUR, START + 5 * HOUR, SUSAN, Sums(held=HOUR))], [(START + 5 * HOUR + 9, SUSAN, 1.0)], []
    )
    assert report_view.step_of([ReportBy.HOUR]) == HOUR
    (row,) = report(ReportBy.HOUR, held=hourly).rows
    assert (row.by, row.gpu_hours_held, row.wait_p50_s) == ({"hour": "2026-09-28 05:00"}, 1.0, 1.0)


# ---------- quotas


def test_a_quota_counts_for_as_long_as_it_held() -> None:
    found = report(ReportBy.PROJECT)
    vision = 2 * 48.0 + 4 * 120.0
    assert column(found, "gpu_hours_quota") == {
        ("",): None,
        ("nlp",): 48.0,
        ("speech",): None,
        ("vision",): vision,
    }
    assert found.total.gpu_hours_quota is None


def test_a_quota_is_divided_between_months_and_ends_now() -> None:
    found = report(ReportBy.PROJECT, ReportBy.MONTH, now=START + 3.5 * DAY)
    quotas = {key: hours for key, hours in column(found, "gpu_hours_quota").items() if hours is not None}
    assert quotas == {("vision", "2026-09"): 2 * 48.0 + 4 * 24.0, ("vision", "2026-10"): 4 * 12.0}


def test_an_unlimited_quota_has_no_hours() -> None:
    unlimited = Held([], [], [quota("vision", 2.0, 0, 2), quota("vision", None, 2, 7)])
    assert column(report(ReportBy.PROJECT, held=unlimited), "gpu_hours_quota") == {("vision",): None}


@pytest.mark.parametrize("by", [(), (ReportBy.PROJECT, ReportBy.PERSON), (ReportBy.KIND,), (ReportBy.MONTH,)])
def test_rows_that_quotas_say_nothing_about_have_none(by: tuple[ReportBy, ...]) -> None:
    found = report(*by)
    assert {row.gpu_hours_quota for row in found.rows} == {None}
    assert not any("Quotas" in note for note in found.notes)


def test_a_report_says_since_when_quotas_are_known() -> None:
    later = Held([], [], [quota("vision", 2.0, 1.5, 7)])
    assert report(ReportBy.PROJECT, held=later).notes == [
        "Quotas are known since 2026-09-29 12:00 UTC; GPU-hours of quota begin there."
    ]


# ---------- costs


def test_a_cost_says_what_it_leaves_out() -> None:
    found = report(ReportBy.PROJECT)
    assert column(found, "cost") == {("",): None, ("nlp",): None, ("speech",): None, ("vision",): 5.0}
    assert found.notes[-1] == "The cost leaves out GPU-hours that had no price, of a100 and t4."


def test_without_any_price_there_is_no_cost_and_no_note_of_it() -> None:
    free = report(held=Held([sums(JOE, 0, held=1.0, measured=1.0)], [], []))
    assert (free.total.cost, free.notes) == (None, [])


def test_nothing_held_is_an_empty_report() -> None:
    empty = report(ReportBy.PROJECT, held=Held([], [], []))
    assert (empty.rows, empty.notes, empty.total.gpu_hours_held) == ([], [], 0.0)
