"""The checker on pools at rest and on short histories: it reports the breaches, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from histories.living import live_through
from histories.small_plans import (
    BORROWED,
    NOW,
    WHY,
    A,
    on,
    on_sockets,
    plan,
    pool,
    running,
)
from msgspec import structs

from springtide.scheduler.model import (
    Job,
    JobChanged,
    JobRemoved,
    Node,
    Project,
    Snapshot,
    Start,
)
from springtide.scheduler.promises import (
    Books,
    Promise,
    Step,
    Watch,
    check_history,
    check_rest,
)

RESTS = {
    "a job that fits": (pool(A), 1),
    "a job that fits nowhere": (pool(Job("a", "vision", gpus=8)), 0),
    "a job above its limit": (pool(Job("a", "ops", gpus=4)), 0),
    "a job that must not start yet": (pool(structs.replace(A, not_before=NOW + 1)), 0),
    "a job whose place is reserved for others": (
        pool(
            Job("a", "vision", gpus=4),
            running("x", "speech", on("n0", 0)),
            Job("b", "speech", gpus=2, reserved=on("n1", 0, 1)),
            running("y", "ops", on("n1", 1)),
        ),
        0,
    ),
    "a gang across racks": (
        pool(
            Job("a", "vision", workers=2, min_workers=2, gpus=3, require="rack"),
            running("x", "speech", on("n0", 0)),
        ),
        0,
    ),
    "a gang that fits in a rack": (pool(Job("a", "vision", workers=2, min_workers=2, gpus=2, require="rack")), 1),
    "a gang across sockets": (
        on_sockets(
            Job("a", "vision", workers=2, min_workers=2, require="socket"),
            *(running(f"x{gpu}", "speech", on("n0", gpu)) for gpu in (0, 2)),
            running("y", "ops", on("n1", 0, 1, 2)),
        ),
        0,
    ),
    "a gang that fits on a socket": (
        on_sockets(
            Job("a", "vision", workers=2, min_workers=2, require="socket"),
            running("x", "speech", on("n0", 0)),
            running("y", "ops", on("n1", 0, 1, 2)),
        ),
        1,
    ),
    "a reservation that could be kept": (pool(Job("b", "speech", gpus=2, reserved=on("n1", 0, 1))), 1),
}


@pytest.mark.parametrize(("snapshot", "breaches"), RESTS.values(), ids=RESTS.keys())
def test_a_pool_at_rest_with(snapshot, breaches):
    found = check_rest(Books(snapshot), NOW)

    assert [breach.promise for breach in found] == [Promise.WORK_CONSERVING] * breaches


def test_a_guarantee_is_broken_only_after_its_time():
    full = pool(BORROWED, running("more", "ops", on("n1", 0, 1, 2, 3)), Job("a", "vision", gpus=2), grace=30.0)
    watch = Watch(full)
    for at in (NOW, NOW + 30, NOW + 31):
        watch.settled(at)
    watch.finish(NOW + 100)

    assert [breach.promise for breach in watch.breaches] == [Promise.GUARANTEE]
    assert watch.meter.violations["vision"] == 70


def test_a_guarantee_that_cannot_be_kept_is_not_broken():
    too_much = (Project("vision", quota=40), Project("ops", quota=2, age=3))
    full = replace(
        pool(BORROWED, running("more", "ops", on("n1", 0, 1, 2, 3)), Job("a", "vision", gpus=4)), projects=too_much
    )
    watch = Watch(full)
    watch.settled(NOW)
    watch.settled(NOW + 1000)

    assert watch.breaches == []


def test_a_job_ends_once():
    watch = Watch(pool(A))
    watch.apply(JobRemoved("a"))
    watch.apply(JobRemoved("a"))
    watch.apply(JobChanged(A))

    assert [breach.promise for breach in watch.breaches] == [Promise.NOTHING_LOST, Promise.NOTHING_LOST]


def test_a_recorded_history_is_checked_step_by_step():
    started = running("a", "vision", on("n0", 0, 1), started=NOW)
    fine = [
        Step(NOW, (), plan(Start("a", on("n0", 0, 1), WHY))),
        Step(NOW, (JobChanged(started),), plan()),
        Step(NOW + 5, (JobRemoved("a"),), plan()),
    ]
    idle = [Step(NOW, (), plan())]

    assert check_history(pool(A), fine) == ()
    assert [breach.promise for breach in check_history(pool(A), idle)] == [Promise.WORK_CONSERVING]


def test_a_job_waits_no_longer_than_patience_for_what_its_project_is_entitled_to():
    watch = Watch(
        pool(
            running("x", "speech", on("n0", 0, 1, 2)),
            Job("a", "vision", gpus=3),
            running("y", "ops", on("n1", 0)),
            running("z", "ops", on("n1", 1)),
        ),
        patience=500.0,
    )
    watch.settled(NOW + 499)
    assert Promise.NO_STARVATION not in {breach.promise for breach in watch.breaches}
    watch.settled(NOW + 600)

    assert Promise.NO_STARVATION in {breach.promise for breach in watch.breaches}


def test_incremental_books_equal_books_opened_afresh():
    for seed in range(30):
        world = live_through(seed, 60)
        kept, fresh = world.watch.books, Books(world.snapshot())

        parts: list[tuple[dict[Any, int], dict[Any, int]]] = [(kept.rooms, fresh.rooms), (kept.free, fresh.free)]
        for sums in ("held", "direct", "claimed", "pinned", "promised"):
            for gpu_type, account in fresh.accounts.items():
                parts.append((getattr(kept.accounts[gpu_type], sums), getattr(account, sums)))
        for mine, other in parts:
            assert {key: n for key, n in mine.items() if n} == {key: n for key, n in other.items() if n}
        assert kept.owners == fresh.owners
        assert {kind: set(jobs) for kind, jobs in kept.waiting.items()} == {
            kind: set(jobs) for kind, jobs in fresh.waiting.items()
        }


def test_what_the_quota_of_a_borrower_protects_is_not_owed_to_others():
    """Two nodes of two GPUs: a project beyond its quota of two keeps one of them, so no gang gets both."""
    watch = Watch(
        Snapshot(
            NOW,
            (Node("n0", 2), Node("n1", 2), Node("n2", 1), Node("n3", 1)),
            (Project("a", quota=2), Project("b", quota=4, age=1)),
            (
                running("x", "a", on("n0", 0, 1)),
                running("y", "a", on("n1", 0, 1)),
                Job("gang", "b", workers=2, min_workers=2, gpus=2),
            ),
        )
    )
    watch.settled(NOW)
    watch.settled(NOW + 1000)

    assert watch.breaches == []
