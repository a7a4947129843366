"""The ledger in the store: sums by hour, day and month, measured use, what is kept, earlier stores."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from jobs.ledger_entries import kept_entries
from stores.earlier_store import write_earlier

from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.store import Store, gpu_usage_writing, ledger_writing, renaming
from springtide.scheduler.store.gpu_usage import FINE, UsageKey, UsageRecord
from springtide.scheduler.store.ledger import (
    DAY,
    HOUR,
    MONTH,
    STEPS,
    Accounts,
    Group,
    Held,
    Holding,
    LedgerEntry,
    Piece,
    begin_of,
    end_of,
    fewest,
    rolled_up,
)
from springtide.scheduler.store.queries import ledger
from springtide.scheduler.store.records import WriteBatch
from springtide.scheduler.store.tables import Tables

Opener = Callable[..., Store]
TODAY = 20_000 * DAY
NOON = TODAY + 12 * HOUR
VISION = Group("vision", "susan", "training", "t4")


def entry(number: int = 1, start: float = NOON, end: float = NOON + 60, **more: Any) -> LedgerEntry:
    fields: dict[str, Any] = {
        "id": number,
        "job": f"job{number}",
        "attempt": 1,
        "server": "",
        **VISION._asdict(),
        "nodes": {"train": 2},
        "gpus": 2,
        "borrowed": 0,
        "price": None,
        "start": float(start),
        "end": float(end),
    }
    return LedgerEntry(**{**fields, **more})


def holding(job: str = "live", start: float = NOON, gpus: int = 2, borrowed: int = 0) -> Holding:
    held = Held(*VISION, {"train": gpus}, borrowed)
    return Holding(job, 1, "", "", 0.0, 4.0, (Piece(float(start), held),))


def commit(store: Store, *entries: LedgerEntry, holdings: Any = ()) -> None:
    records: dict[Any, Any] = {Tables.holdings: Tables.holdings.by_key(holdings)} if holdings else {}
    store.commit(WriteBatch(entries=list(entries), records=records))


def sum_up(store: Store) -> None:
    """Add all that is not in the sums yet, as the service does each minute."""
    for pending, add in (
        (ledger_writing.has_entries, ledger_writing.add_entries),
        (ledger_writing.has_use, ledger_writing.add_use),
    ):
        while store.read(pending):
            store.write(add)


def accounts(store: Store, step: int = DAY, now: float = NOON + 30 * DAY, **more: Any) -> Accounts:
    """Return what the ledger says of two months in each group."""
    whole = ledger.Intervals(step, range(TODAY - 30 * DAY, TODAY + 31 * DAY, step))
    return store.read(ledger.accounts, whole, Group._fields, now=now, **more)


def held(found: Accounts, name: str = "held") -> dict[tuple[int, Group], float]:
    """Return one of the sums by the hour or day, counted from that of noon on, and group."""
    step = HOUR if any(at % DAY for at, _ in found.rows) else DAY
    first = NOON // step * step
    return {
        ((at - first) // step, Group(*values)): getattr(row.sums, name) for (at, values), row in found.rows.items()
    }


def waits_of(found: Accounts) -> dict[tuple[int, Group], list[float]]:
    return {(at, Group(*values)): row.waits for (at, values), row in found.rows.items() if row.waits}


def test_an_entry_is_divided_between_hours_and_days() -> None:
    spread = entry(
        start=NOON - 1800, end=NOON + HOUR + 900, borrowed=1, price=2.0, wait=3.0, ended="paused", lost=5.0
    )
    parts = {(each.step, (each.at - NOON) // HOUR): each.sums for each in rolled_up([spread], (HOUR, DAY))}
    assert {key: sums.held for key, sums in parts.items()} == {
        (HOUR, -1): 3_600.0,
        (HOUR, 0): 7_200.0,
        (HOUR, 1): 1_800.0,
        (DAY, -12): 12_600.0,
    }
    whole = parts[DAY, -12]
    assert (whole.borrowed, whole.priced, whole.cost, whole.jobs, whole.pauses, whole.lost) == (
        6_300.0,
        12_600.0,
        7.0,
        1,
        1,
        5.0,
    )
    assert [(parts[HOUR, at].jobs, parts[HOUR, at].pauses) for at in (-1, 0, 1)] == [(1, 0), (0, 0), (0, 1)]


def test_an_entry_is_divided_between_months_of_the_calendar() -> None:
    january, march = (int(datetime(2026, month, 1, tzinfo=UTC).timestamp()) for month in (1, 3))
    spread = entry(start=january + 30 * DAY, end=march + HOUR, wait=3.0, ended="paused", lost=5.0)
    parts = {each.at: each.sums for each in rolled_up([spread], (MONTH,))}
    assert {(at - january) // DAY: sums.held for at, sums in parts.items()} == {
        0: 2.0 * DAY,
        31: 2.0 * 28 * DAY,
        59: 2.0 * HOUR,
    }
    assert [(sums.jobs, sums.pauses, sums.lost) for sums in parts.values()] == [
        (1, 0, 0.0),
        (0, 0, 0.0),
        (0, 1, 5.0),
    ]


@pytest.mark.parametrize("step", STEPS)
def test_a_span_is_made_up_of_the_longest_steps_that_divide_it(step: int) -> None:
    rng = random.Random(41)
    for _ in range(200):
        start, end = sorted(begin_of(step, NOON + rng.uniform(-400, 400) * DAY) for _ in range(2))
        spans = list(fewest(step, start, end))
        edges = [at for _, since, until in spans for at in (since, until)]
        assert edges[1:-1:2] == edges[2::2], "each begins where the one before ends"
        assert edges[:1] + edges[-1:] == ([start, end] if start < end else [])
        for own, since, until in spans:
            assert (begin_of(own, since), begin_of(own, until)) == (since, until), "it consists of whole steps"
            for longer in STEPS[STEPS.index(own) + 1 :]:
                assert end_of(longer, end_of(longer, since - 1)) > until, "no longer step is in it"


def test_sums_of_random_entries_are_those_of_the_entries(store: Store) -> None:
    rng = random.Random(36)
    entries = []
    for number in range(1, 400):
        start = NOON + rng.uniform(0, 5 * DAY)
        gpus = rng.randint(1, 8)
        more = {"user": rng.choice("abc"), "gpus": gpus, "nodes": {"n": gpus}, "borrowed": rng.randint(0, gpus)}
        entries.append(entry(number, start, start + rng.choice([0.5, 600, HOUR, 2 * DAY]), **more))
    for first in range(0, len(entries), 57):
        commit(store, *entries[first : first + 57])
        if rng.random() < 0.5:
            sum_up(store)
    expected: dict[str, Fraction] = defaultdict(Fraction)
    for each in entries:
        expected[each.user] += each.gpus * (Fraction(each.end) - Fraction(each.start))
    for step in (HOUR, DAY):
        found: dict[str, float] = defaultdict(float)
        for (_, group), seconds in held(accounts(store, step)).items():
            found[group.user] += seconds
            assert seconds <= step * 8 * 400
        assert found == {user: pytest.approx(float(seconds), abs=1e-3) for user, seconds in expected.items()}


def test_an_entry_is_counted_once_before_and_after_it_is_summed_up(store: Store) -> None:
    commit(store, entry(1, wait=7.0), entry(2))
    for _ in range(3):
        found = accounts(store)
        assert list(held(found).values()) == [240.0]
        assert waits_of(found) == {(TODAY, VISION): [7.0]}
        sum_up(store)


def test_what_is_held_counts_up_to_now(store: Store) -> None:
    commit(store, holdings=[holding(borrowed=1)])
    found = accounts(store, HOUR, now=NOON + 90 * 60)
    assert held(found) == {(0, VISION): 7_200.0, (1, VISION): 3_600.0}
    assert held(found, "borrowed") == {(0, VISION): 3_600.0, (1, VISION): 1_800.0}
    assert waits_of(found) == {(NOON, VISION): [4.0]}


def test_groups_that_are_not_visible_are_left_out(store: Store) -> None:
    commit(store, entry(1, wait=1.0), entry(2, user="joe", wait=2.0), holdings=[holding()])
    for _ in range(2):
        found = accounts(store, now=NOON + 60, may=lambda user, _: user == "joe")
        assert {group.user for _, group in held(found)} == {"joe"}
        assert (list(waits_of(found).values()), found.total.waits) == ([[2.0]], [2.0])
        sum_up(store)


# ---------- measured use


def measure(store: Store, at: int, utilization: float | None, *holders: UsageKey) -> None:
    """Write the use of an hour, in intervals of ten seconds."""
    for second in range(at, at + HOUR, FINE):
        records = [
            UsageRecord(step=FINE, at=second, seconds=FINE, key=key, reading=Reading(utilization=utilization))
            for key in holders
        ]
        store.write(gpu_usage_writing.save, records, float(second + FINE))


def test_measured_use_is_added_to_those_who_held_the_gpus(store: Store) -> None:
    workspace = {"job": "", "attempt": 0, "server": "lab", "project": "", "kind": "workspace"}
    commit(store, entry(1, NOON, NOON + HOUR), entry(2, NOON, NOON + 60, **workspace), holdings=[holding()])
    of_job = UsageKey("GPU-0", "job", "job1", "susan", "", "vision")
    of_live = UsageKey("GPU-1", "job", "live", "susan", "", "vision")
    of_workspace = UsageKey("GPU-2", "workspace", "", "susan", "lab", "")
    measure(store, NOON, 0.25, of_job, of_workspace, UsageKey("GPU-3", "job", "unknown", "joe", "", "nlp"))
    measure(store, NOON + HOUR, 0.05, of_live)
    measure(store, NOON + 2 * HOUR, None, of_live)
    for _ in range(2):
        sum_up(store)
        found = accounts(store, HOUR, now=NOON + 1.0)
        desk = Group("", "susan", "workspace", "t4")
        assert held(found, "used") == {(0, VISION): 900.0, (0, desk): 900.0, (1, VISION): pytest.approx(180.0)}
        assert held(found, "measured") == {(0, VISION): 3_600.0, (0, desk): 3_600.0, (1, VISION): 3_600.0}
        assert held(found, "idle") == {(0, VISION): 0.0, (0, desk): 0.0, (1, VISION): 3_600.0}
        assert {group for (_, group), seconds in held(accounts(store), "measured").items() if seconds} == {
            VISION,
            desk,
        }


# ---------- what is kept


def test_old_entries_go_once_they_are_summed_up_and_the_sums_stay(store: Store) -> None:
    commit(store, *(entry(number) for number in range(1, 6)))
    store.write(ledger_writing.prune, NOON + DAY)
    assert len(store.read(kept_entries, 0.0)) == 5, "none is in the sums yet"
    sum_up(store)
    store.write(ledger_writing.prune, NOON + 30.0)
    assert len(store.read(kept_entries, 0.0)) == 5, "none is old enough"
    store.write(ledger_writing.prune, NOON + DAY)
    assert [each.id for each in store.read(kept_entries, 0.0)] == [5], "the newest has the highest id"
    assert list(held(accounts(store)).values()) == [600.0]


def test_the_past_of_a_renamed_person_has_the_new_name(store: Store) -> None:
    commit(store, entry(1))
    sum_up(store)
    commit(store, entry(2))
    store.write(renaming.rename, "susan", "sue")
    assert {group.user for _, group in held(accounts(store))} == {"sue"}
    assert {each.user for each in store.read(kept_entries, 0.0)} == {"sue"}


def test_a_pool_of_1000_gpus_and_50_projects_needs_less_than_a_gigabyte_in_a_year(
    tmp_path: Any, open_store: Opener
) -> None:
    """Room by the size of real rows: entries, their sums, and the waits of jobs.

    Each GPU gets another attempt every six hours. In each hour 400 of the combinations of project, person, kind of
    work and type hold GPUs, more than 300 people with a workspace or a job each.
    """
    store, rows = open_store(f"sqlite:///{tmp_path}/year.sqlite"), 20_000

    def size() -> int:
        with store._writer.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar() or 0
            return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar() or 0)

    groups = [
        {"project": f"department-{each % 50}", "user": f"firstname.lastname{each}", "gpu_type": "a100-sxm4-80gb"}
        for each in range(400)
    ]
    entries = [
        entry(
            number,
            NOON + number * 7.25,
            NOON + number * 7.25 + 5_000.123,
            job=f"k3v9x2m{number:05}",
            nodes={f"dgx-{number % 125:03}": 8},
            price=2.5,
            borrowed=1,
            wait=123.456,
            ended="succeeded",
            **groups[number % 400],
        )
        for number in range(1, rows + 1)
    ]
    before = size()
    commit(store, *entries)
    of_entries = (size() - before) / rows
    before = size()
    sum_up(store)
    with store._writer.connect() as connection:
        sums = connection.exec_driver_sql("SELECT COUNT(*) FROM ledger_sums").scalar() or 0
    of_sums = (size() - before) / sums
    attempts, hours = 1_000 * 4 * 365, 24 * 365
    year = attempts * of_entries + (hours + 365) * 400 * of_sums
    assert sums > 10_000
    assert year < 1e9, f"{of_entries:.0f} bytes an entry, {of_sums:.0f} a sum with the waits"


# ---------- earlier stores


def attempt_row(job: str, number: int, created: float, ended: float | None, **body: Any) -> dict[str, Any]:
    whole = {"job": job, "number": number, "created": created, "ended": ended, **body}
    row = {"job": job, "number": number, "project": "vision", "gpus": 2, "created": created, "ended": ended}
    return {**row, "body": json.dumps(whole if body else {})}


def job_row(job: str, seq: int, **spec: Any) -> dict[str, Any]:
    return {
        "id": job,
        "seq": seq,
        "user": "susan",
        "project": "vision",
        "state": "failed",
        "ended": 900.0,
        "spec": json.dumps(spec),
        "standing": json.dumps({"started": 110.0}),
        "submitted": 100.0,
        "trial": spec.get("number"),
    }


WORKERS = [{"rank": 0, "node": "train", "gpus": [0]}, {"rank": 1, "node": "other", "gpus": [0]}]
RAN = {"placement": WORKERS, "started": 110.0, "gpu_type": "t4", "state": "paused", "borrowed": 1, "saved": 160.0}


def test_attempts_of_an_earlier_store_are_entered(empty: str, open_store: Opener) -> None:
    shifted = attempt_row("a", 2, 3_900.0, 4_000.0, **{**RAN, "started": 3_910.0, "state": "lost"})
    rows = {
        "meta": [{"key": "epoch", "value": 7}, {"key": "next_age", "value": 0}],
        "jobs": [job_row("a", 1), job_row("b", 2, tests="a"), job_row("c", 3, number=4)],
        "attempts": [
            attempt_row("a", 1, 105.0, 200.0, **RAN),
            {**shifted, "created": 300.0},
            attempt_row("b", 1, 105.0, 200.0, **{**RAN, "exit_code": 75}),
            attempt_row("c", 1, 105.0, 105.0, **RAN),
            attempt_row("c", 2, 300.0, None, **RAN),
            attempt_row("c", 3, 300.0, 310.0, **RAN),
            attempt_row("deleted", 1, 105.0, 200.0),
        ],
    }
    write_earlier(empty, "0022", rows)
    store = open_store(empty)
    found = {(each.job, each.attempt): each for each in store.read(kept_entries, 0.0)}
    assert {key: (each.kind, each.start, each.end) for key, each in found.items()} == {
        ("a", 1): ("training", 105.0, 200.0),
        ("a", 2): ("training", 3_900.0, 4_000.0),
        ("b", 1): ("test_run", 105.0, 200.0),
        ("c", 3): ("trial", 300.0, 310.0),
        ("deleted", 1): ("training", 105.0, 200.0),
    }
    first = found["a", 1]
    assert (first.user, first.gpu_type, first.nodes, first.borrowed) == (
        "susan",
        "t4",
        {"train": 1, "other": 1},
        1,
    )
    assert (first.wait, first.lost, found["a", 2].wait) == (10.0, 80.0, None)
    assert found["b", 1].lost == 0.0, "it ended as one that has saved"
    assert (found["deleted", 1].user, found["deleted", 1].gpus) == ("", 2)
    with store._writer.connect() as connection:
        began = connection.exec_driver_sql("SELECT created FROM attempts WHERE job = 'a' AND number = 2").scalar()
    assert began == 3_900.0, "when the clock was set, only the body of the row had followed"
    sum_up(store)
    ancient = ledger.Intervals(DAY, (0, DAY))
    assert store.read(ledger.accounts, ancient, (), now=float(DAY)).total.sums.held == 2 * (
        3 * 95.0 + 100.0 + 10.0
    )


def test_waits_and_sums_of_an_earlier_store_are_in_reports(empty: str, open_store: Opener) -> None:
    numbers = dict.fromkeys(("priced", "cost", "measured", "used", "idle", "lost"), 0.0)
    sums = {"held": 40.0, "borrowed": 10.0, "jobs": 1, "pauses": 0, **numbers}
    groups = {1: VISION, 2: VISION._replace(user="joe"), 3: VISION._replace(project="", kind="workspace")}
    waits = [(1, NOON, 1, 9.0), (2, NOON + 5, 2, 3.0), (3, NOON - DAY, 1, 7.0)]
    rows = {
        "meta": [{"key": "epoch", "value": 7}, {"key": "next_age", "value": 0}],
        "ledger_groups": [{"id": number, **group._asdict()} for number, group in groups.items()],
        "ledger_sums": [{"step": DAY, "at": TODAY, "group": number, **sums} for number in groups],
        "ledger_waits": [dict(zip(("entry", "at", "group", "wait"), each, strict=True)) for each in waits],
    }
    write_earlier(empty, "0023", rows)
    store = open_store(empty)
    found = accounts(store, lots=True)
    assert waits_of(found) == {(TODAY, VISION): [9.0], (TODAY, groups[2]): [3.0], (TODAY - DAY, VISION): [7.0]}
    assert found.lots == {(TODAY, "vision", "t4"): (80.0, 20.0)}
    month = ledger.Intervals(DAY, (begin_of(MONTH, TODAY), end_of(MONTH, TODAY)))
    assert store.read(ledger.accounts, month, ("user",), now=float(NOON)).total.sums.held == 120.0
