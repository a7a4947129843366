"""Reports against an oracle: fractions over raw entries, second by second exact, without sums and without SQL."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from springtide.scheduler.engine import reports
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store, ledger_writing
from springtide.scheduler.store.ledger import DAY, HOUR, EndedFact, FactKind, Held, Holding, LedgerEntry, Piece
from springtide.scheduler.store.records import WriteBatch
from springtide.scheduler.store.tables import Tables
from springtide.scheduler.wire import ReportBy

FIRST, LAST = date(2025, 12, 20), date(2026, 2, 12)
START = int(datetime(2025, 12, 18, tzinfo=UTC).timestamp())
NOW = datetime(2026, 2, 12, 15, 30, tzinfo=UTC).timestamp()
FIELDS = {ReportBy.PROJECT: "project", ReportBy.PERSON: "user", ReportBy.TYPE: "gpu_type", ReportBy.KIND: "kind"}
FORMATS = {
    ReportBy.HOUR: "%Y-%m-%d %H:00",
    ReportBy.DAY: "%Y-%m-%d",
    ReportBy.WEEK: "%G-W%V",
    ReportBy.MONTH: "%Y-%m",
    ReportBy.YEAR: "%Y",
}
BY: list[tuple[ReportBy, ...]] = [
    (),
    (ReportBy.PROJECT,),
    (ReportBy.PERSON, ReportBy.MONTH),
    (ReportBy.WEEK, ReportBy.KIND, ReportBy.TYPE),
    (ReportBy.PROJECT, ReportBy.DAY),
    (ReportBy.PROJECT, ReportBy.TYPE, ReportBy.WEEK),
    (ReportBy.HOUR, ReportBy.PROJECT),
    (ReportBy.YEAR,),
    (ReportBy.TYPE, ReportBy.YEAR),
]
SIGHTS: dict[str, Callable[[str, str], bool]] = {
    "admin": lambda _user, _project: True,
    "lead": lambda user, project: project == "vision" or user == "a",
    "member": lambda user, _project: user == "a",
    "stranger": lambda _user, _project: False,
}


def random_entry(number: int, rng: random.Random) -> LedgerEntry:
    start = START + rng.uniform(0, NOW - START - 60)
    gpus = rng.randint(1, 8)
    ended = rng.choice(["succeeded", "paused", "lost"])
    return LedgerEntry(
        id=number,
        job=f"job{number}",
        attempt=1,
        user=rng.choice(["a", "b", "c", ""]),
        server="",
        project=rng.choice(["vision", "speech", "nlp", ""]),
        kind=rng.choice(["training", "trial"]),
        gpu_type=rng.choice(["t4", "a100"]),
        nodes={"n": gpus},
        gpus=gpus,
        borrowed=rng.choice([0, 0, rng.randint(0, gpus)]),
        price=rng.choice([None, 0.5, 2.0]),
        start=start,
        end=min(NOW, start + rng.choice([0.5, 600.0, HOUR, 3.3 * DAY])),
        wait=rng.choice([None, rng.expovariate(0.01), 7.0]),
        ended=ended,
        lost=rng.choice([0.0, 12.5]) if ended != "succeeded" else 0.0,
    )


def random_holding(number: int, rng: random.Random) -> Holding:
    """Return what a job or a workspace still holds."""
    pieces, start = [], NOW - rng.uniform(0, 9 * DAY)
    project, user = rng.choice(["vision", "speech"]), rng.choice(["a", "b", "d"])
    for _ in range(rng.randint(1, 3)):
        pieces.append(
            Piece(start, Held(project, user, "training", "t4", {"n": rng.randint(1, 4)}, rng.randint(0, 1)))
        )
        start += rng.uniform(1, NOW - start)
    return Holding(f"live{number}", 1, "", "", 0.0, rng.choice([None, 3.0]), tuple(pieces))


def random_facts(rng: random.Random) -> list[EndedFact]:
    """Return quotas that change; the first project has another inside, the last an unlimited quota."""
    found: list[EndedFact] = []
    for project in ("vision", "speech", "nlp"):
        for gpu_type in ("t4", "a100"):
            edges = [START, *sorted(rng.uniform(START, NOW) for _ in range(3)), NOW]
            for start, end in pairwise(edges):
                value = None if project == "nlp" and rng.random() < 0.3 else float(rng.randint(0, 12))
                found.append(EndedFact(0, FactKind.QUOTA, project, gpu_type, value, start, end))
                if project == "vision" and value:
                    own = float(rng.randint(0, int(value)))
                    found.append(EndedFact(0, FactKind.OWN_QUOTA, project, gpu_type, own, start, end))
    return [replace(each, id=number) for number, each in enumerate(found, 1)]


def fill(store: Store, rng: random.Random) -> tuple[list[LedgerEntry], list[EndedFact]]:
    """Write entries, of which the last are not summed up yet, and return all that was held."""
    entries = [random_entry(number, rng) for number in range(1, 400)]
    holdings, facts = [random_holding(number, rng) for number in range(20)], random_facts(rng)
    store.commit(WriteBatch(ended_facts=facts))
    for first in range(0, len(entries), 90):
        store.commit(WriteBatch(entries=entries[first : first + 90]))
        while first < 300 and store.read(ledger_writing.has_entries):
            store.write(ledger_writing.add_entries)
    store.commit(WriteBatch(records={Tables.holdings: Tables.holdings.by_key(holdings)}))
    return [*entries, *(each for holding in holdings for each in holding.entries(NOW))], facts


# ---------- the oracle


def label(by: Sequence[ReportBy], at: float, entry: Any) -> tuple[str, ...]:
    moment = datetime.fromtimestamp(at, UTC)
    return tuple(
        moment.strftime(FORMATS[each]) if each in FORMATS else getattr(entry, FIELDS[each]) for each in by
    )


def parts(start: float, end: float, step: int) -> list[tuple[int, Fraction]]:
    """Return the steps that a span touches, with its seconds in each."""
    steps = range(int(start // step) * step, int(end // step) * step + 1, step)
    return [
        (at, max(Fraction(0), min(Fraction(end), Fraction(at + step)) - max(Fraction(start), Fraction(at))))
        for at in steps
    ]


class Expected:
    """A row by the oracle."""

    def __init__(self) -> None:
        self.held = self.borrowed = self.cost = self.lost = Fraction(0)
        self.jobs = self.pauses = 0
        self.people: set[str] = set()
        self.waits: list[float] = []
        self.priced = False


def expected(entries: Sequence[LedgerEntry], by: Sequence[ReportBy], may: Any) -> dict[tuple[str, ...], Expected]:
    first = int(datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC).timestamp())
    end, step = first + (LAST - FIRST + timedelta(1)).days * DAY, HOUR if ReportBy.HOUR in by else DAY
    rows: dict[tuple[str, ...], Expected] = defaultdict(Expected)
    for entry in entries:
        if not may(entry.user, entry.project):
            continue
        inside = [(at, seconds) for at, seconds in parts(entry.start, entry.end, step) if first <= at < end]
        for at, seconds in inside:
            is_start, is_end = at <= entry.start < at + step, at <= entry.end < at + step
            ends = is_end and (entry.ended == "paused" or entry.lost > 0)
            if not (seconds or is_start or ends):
                continue
            row = rows[label(by, at, entry)]
            row.held += seconds * entry.gpus
            row.borrowed += seconds * entry.borrowed
            if entry.price is not None:
                row.cost += seconds * entry.gpus / HOUR * Fraction(entry.price)
                row.priced = row.priced or seconds > 0
            if seconds and entry.user:
                row.people.add(entry.user)
            if is_start and entry.wait is not None:
                row.jobs += 1
                row.waits.append(entry.wait)
            if ends:
                row.pauses += entry.ended == "paused"
                row.lost += Fraction(entry.lost)
    return rows


def percentile(waits: list[float], percent: int) -> float | None:
    return sorted(waits)[math.ceil(Fraction(len(waits) * percent, 100)) - 1] if waits else None


def check(row: Any, wanted: Expected) -> None:
    def same(seconds: Fraction) -> Any:
        return pytest.approx(float(seconds / HOUR), rel=1e-9, abs=1e-9)

    assert row.gpu_hours_held == same(wanted.held)
    assert row.gpu_hours_borrowed == same(wanted.borrowed)
    assert row.lost_gpu_hours == same(wanted.lost)
    assert row.cost == (pytest.approx(float(wanted.cost), rel=1e-9, abs=1e-9) if wanted.priced else None)
    assert (row.jobs, row.pauses, row.people) == (wanted.jobs, wanted.pauses, len(wanted.people))
    assert (row.wait_p50_s, row.wait_p95_s) == (percentile(wanted.waits, 50), percentile(wanted.waits, 95))


@pytest.mark.parametrize("seed", [1, 2])
def test_reports_of_random_ledgers_are_those_of_the_raw_entries(store: Store, seed: int) -> None:
    entries, _ = fill(store, random.Random(seed))
    for by in BY:
        for name, may in SIGHTS.items():
            sight = reports.Sight(use=may, quota=lambda _: False)
            found = store.read(reports.made, by, (FIRST, LAST), NOW, sight)
            wanted = expected(entries, by, may)
            assert {tuple(row.by.values()) for row in found.rows} == set(wanted), (by, name)
            for row in found.rows:
                check(row, wanted[tuple(row.by.values())])
            check(found.total, expected(entries, (), may)[()])


# ---------- lent hours


def lent_by(
    entries: Sequence[LedgerEntry], facts: Sequence[EndedFact], step: int
) -> dict[tuple[int, str, str], Fraction]:
    """Return the GPU-seconds that each project lends in each hour or day, from entries and facts alone."""
    within, borrowed, own = (defaultdict[Any, Fraction](Fraction) for _ in range(3))
    for entry in entries:
        for at, seconds in parts(entry.start, entry.end, step) if entry.project else ():
            within[at, entry.project, entry.gpu_type] += seconds * (entry.gpus - entry.borrowed)
            borrowed[at, entry.gpu_type] += seconds * entry.borrowed
    replaced = {(each.project, each.gpu_type, each.start) for each in facts if each.kind is FactKind.OWN_QUOTA}
    for fact in facts:
        if fact.kind is FactKind.OWN_QUOTA or (fact.project, fact.gpu_type, fact.start) not in replaced:
            for at, seconds in parts(fact.start, fact.end, step):
                own[at, fact.project, fact.gpu_type] += seconds * Fraction(fact.value or 0.0)
    unused = {key: max(Fraction(0), seconds - within[key]) for key, seconds in own.items()}
    totals: dict[Any, Fraction] = defaultdict(Fraction)
    for (at, _, gpu_type), seconds in unused.items():
        totals[at, gpu_type] += seconds
    return {
        (at, project, gpu_type): seconds * min(Fraction(1), borrowed[at, gpu_type] / totals[at, gpu_type])
        for (at, project, gpu_type), seconds in unused.items()
        if totals[at, gpu_type]
    }


@pytest.mark.parametrize(
    "by",
    [
        (ReportBy.PROJECT,),
        (ReportBy.PROJECT, ReportBy.TYPE, ReportBy.DAY),
        (ReportBy.MONTH, ReportBy.PROJECT),
        (ReportBy.PROJECT, ReportBy.HOUR),
    ],
)
def test_lent_hours_are_those_of_raw_entries_and_quotas(store: Store, by: tuple[ReportBy, ...]) -> None:
    entries, facts = fill(store, random.Random(3))
    everything = reports.Sight(use=SIGHTS["admin"], quota=lambda _: True)
    found = store.read(reports.made, by, (FIRST, LAST), NOW, everything)
    step = HOUR if ReportBy.HOUR in by else DAY
    wanted: dict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for (at, project, gpu_type), seconds in lent_by(entries, facts, step).items():
        if FIRST.isoformat() <= datetime.fromtimestamp(at, UTC).date().isoformat() <= LAST.isoformat():
            named = type("Lot", (), {"project": project, "gpu_type": gpu_type})
            wanted[label(by, at, named)] += seconds
    shown = {tuple(row.by.values()): row.gpu_hours_lent for row in found.rows if row.gpu_hours_lent}
    assert sum(shown.values()) > 0
    assert shown == {
        key: pytest.approx(float(seconds / HOUR), rel=1e-6, abs=1e-6)
        for key, seconds in wanted.items()
        if seconds > 1e-6
    }
    assert found.total.gpu_hours_lent == pytest.approx(sum(shown.values()))


@pytest.mark.parametrize(
    ("rows", "days", "hint"),
    [
        (120_000, 31, "Ask for at most 25 days at a time, or for fewer columns."),
        (3_000_000, 31, "Ask for at most 1 day at a time, or for fewer columns."),
        (120_000, 1, "Ask for fewer columns."),
    ],
)
def test_a_report_of_too_many_rows_is_refused_with_the_days_that_are_possible(
    rows: int, days: int, hint: str
) -> None:
    reports.check_rows(reports.MOST_ROWS, days)
    with pytest.raises(Refusal, match=f"The report has {rows:,} rows; at most 100,000 are possible") as caught:
        reports.check_rows(rows, days)
    assert caught.value.hint == hint
