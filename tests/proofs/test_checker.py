"""The checker on single plans: it reports the breaches, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories.small_plans import (
    BORROWED,
    GANG,
    NOW,
    PROJECTS,
    WHY,
    A,
    broken,
    on,
    on_sockets,
    plan,
    pool,
    running,
    with_per_gpu,
)
from msgspec import structs

from springtide.scheduler.model import (
    Drop,
    Job,
    Move,
    Order,
    Pause,
    Phase,
    Reserve,
    Standing,
    Start,
    Worker,
)
from springtide.scheduler.promises import (
    Books,
    Promise,
    check_decisions,
)
from springtide.scheduler.resources.per_gpu import PerGpu

STARTS = {
    "on free GPUs": (pool(A), Start("a", on("n0", 0, 1), WHY), []),
    "on GPUs that another holds": (
        pool(A, running("b", "speech", on("n0", 1))),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.EXCLUSIVE],
    ),
    "on GPUs of a job that is still stopping": (
        pool(A, running("b", "speech", on("n0", 1), phase=Phase.PAUSING)),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.EXCLUSIVE],
    ),
    "of a job that runs": (
        pool(running("a", "vision", on("n0", 0, 1))),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.EXCLUSIVE],
    ),
    "of a job that its user holds": (
        pool(structs.replace(A, phase=Phase.HELD)),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.NOTHING_LOST],
    ),
    "of no job": (pool(), Start("ghost", on("n0", 0), WHY), [Promise.NOTHING_LOST]),
    "before its time": (
        pool(structs.replace(A, not_before=NOW + 1)),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.NOTHING_LOST],
    ),
    "on a build node": (pool(A), Start("a", on("login", 0, 1), WHY), [Promise.BUILD, Promise.BUILD]),
    "on GPUs that do not exist": (pool(A), Start("a", on("n0", 3, 4), WHY), [Promise.BUILD]),
    "on a GPU that something else uses": (pool(A), Start("a", on("shared", 0, 1), WHY), [Promise.BUILD]),
    "on a node that is away": (
        pool(A),
        Start("a", on("away", 0, 1), WHY),
        [Promise.EXCLUSIVE, Promise.EXCLUSIVE],
    ),
    "with too few workers": (pool(GANG), Start("gang", on("n0", 0), WHY), [Promise.GANG]),
    "with too few GPUs": (pool(A), Start("a", on("n0", 0), WHY), [Promise.GANG]),
    "with a GPU counted twice": (pool(A), Start("a", on("n0", 0, 0), WHY), [Promise.GANG]),
    "across racks that must not be": (
        pool(structs.replace(GANG, require="rack")),
        Start("gang", (Worker(0, "n0", (0,)), Worker(1, "n1", (0,))), WHY),
        [Promise.GANG],
    ),
    "across sockets that must not be": (
        on_sockets(structs.replace(GANG, require="socket")),
        Start("gang", on("n0", 1, 2, per=1), WHY),
        [Promise.GANG],
    ),
    "on a socket": (
        on_sockets(structs.replace(GANG, require="socket")),
        Start("gang", on("n0", 2, 3, per=1), WHY),
        [],
    ),
    "on a node whose sockets are not known": (
        on_sockets(structs.replace(GANG, require="socket")),
        Start("gang", on("n1", 1, 2, per=1), WHY),
        [],
    ),
    "across islands that must not be": (
        on_sockets(structs.replace(GANG, require="island")),
        Start("gang", on("n0", 0, 1, per=1), WHY),
        [Promise.GANG],
    ),
    "on a GPU that is on no island": (
        on_sockets(structs.replace(GANG, require="island")),
        Start("gang", on("n0", 0, 3, per=1), WHY),
        [Promise.GANG],
    ),
    "on a type of GPU that does not do": (
        pool(structs.replace(A, gpu_types=("h100",))),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.GANG],
    ),
    "on a node without RDMA for it": (
        with_per_gpu(structs.replace(A, per_gpu=PerGpu(rdma=0.5)), PerGpu(4.0, 1.0, 0.25)),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.GANG],
    ),
    "on a node with too few cores for it": (
        with_per_gpu(structs.replace(A, per_gpu=PerGpu(5.0, 0)), PerGpu(4.0, 1.0)),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.GANG],
    ),
    "on a node with enough memory for it": (
        with_per_gpu(structs.replace(A, per_gpu=PerGpu(0, 0.5)), PerGpu(4.0, 1.0)),
        Start("a", on("n0", 0, 1), WHY),
        [],
    ),
    "on GPUs reserved for another": (
        pool(A, Job("b", "speech", reserved=on("n0", 0))),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.NO_THRASHING],
    ),
    "above the limit": (
        pool(Job("o", "ops", gpus=4)),
        Start("o", on("n0", 0, 1, 2, 3), WHY),
        [Promise.GUARANTEE],
    ),
    "not preemptible beyond quota": (
        pool(Job("o", "ops", gpus=3, preemptible=False)),
        Start("o", on("n0", 0, 1, 2), WHY),
        [Promise.GUARANTEE],
    ),
}


@pytest.mark.parametrize(("snapshot", "start", "expected"), STARTS.values(), ids=STARTS.keys())
def test_a_start(snapshot, start, expected):
    assert broken(snapshot, plan(start)) == expected


IN_QUOTA = running("fair", "ops", on("n0", 0, 1))
MINE = Job("mine", "vision", gpus=3)

PAUSES = {
    "of a borrower for an owner": (pool(MINE, BORROWED), "big", on("n0", 0, 1, 2), []),
    "of a job within its quota for another project": (
        pool(MINE, IN_QUOTA),
        "fair",
        on("n0", 0, 1, 2),
        [Promise.GUARANTEE],
    ),
    "of a job that cannot be paused": (
        pool(MINE, structs.replace(BORROWED, preemptible=False)),
        "big",
        on("n0", 0, 1, 2),
        [Promise.NO_THRASHING],
    ),
    "inside the minimum run time": (
        pool(MINE, structs.replace(BORROWED, started=NOW - 10), min_runtime=60.0),
        "big",
        on("n0", 0, 1, 2),
        [Promise.NO_THRASHING],
    ),
    "at the end of the minimum run time, after which the job has run for a little less by rounding": (
        pool(MINE, structs.replace(BORROWED, started=NOW - 0.3), min_runtime=0.3),
        "big",
        on("n0", 0, 1, 2),
        [],
    ),
    "inside the minimum run time for one that cannot be paused": (
        pool(
            structs.replace(MINE, preemptible=False), structs.replace(BORROWED, started=NOW - 10), min_runtime=60.0
        ),
        "big",
        on("n0", 0, 1, 2),
        [],
    ),
    "whose GPUs no one is given": (pool(MINE, BORROWED), "big", on("n1", 0, 1, 2), [Promise.NO_THRASHING]),
    "of an equal of the same project": (
        pool(MINE, running("v", "vision", on("n0", 0, 1, 2))),
        "v",
        on("n0", 0, 1, 2),
        [Promise.NO_THRASHING],
    ),
    "of an equal that had more service": (
        pool(MINE, running("v", "vision", on("n0", 0, 1, 2)), order=Order.LEAST_SERVED),
        "v",
        on("n0", 0, 1, 2),
        [],
    ),
    "of an equal that asked not to be rotated": (
        pool(MINE, running("v", "vision", on("n0", 0, 1, 2), rotate=False), order=Order.LEAST_SERVED),
        "v",
        on("n0", 0, 1, 2),
        [Promise.NO_THRASHING],
    ),
    "of a lesser of the same project": (
        pool(structs.replace(MINE, priority=75), running("v", "vision", on("n0", 0, 1, 2))),
        "v",
        on("n0", 0, 1, 2),
        [],
    ),
    "of a better of the same project": (
        pool(MINE, running("v", "vision", on("n0", 0, 1, 2), priority=75)),
        "v",
        on("n0", 0, 1, 2),
        [Promise.NO_THRASHING],
    ),
}


@pytest.mark.parametrize(("snapshot", "victim", "given", "expected"), PAUSES.values(), ids=PAUSES.keys())
def test_a_pause_with_a_reservation(snapshot, victim, given, expected):
    assert broken(snapshot, plan(Pause(victim, "mine", WHY), Reserve("mine", given, WHY))) == expected


def test_a_pause_for_nobody_and_a_pause_without_a_reservation():
    assert broken(pool(MINE, BORROWED), plan(Pause("big", None, WHY))) == [Promise.NO_THRASHING]
    assert Promise.NO_THRASHING in broken(pool(MINE, BORROWED), plan(Pause("big", "mine", WHY)))


def test_the_last_indivisible_gang_of_a_borrower_may_be_paused_as_a_whole():
    small = running("small", "ops", on("n0", 0))
    large = running("large", "ops", on("n0", 1, 2))
    both = plan(Pause("small", "mine", WHY), Pause("large", "mine", WHY), Reserve("mine", on("n0", 0, 1, 2), WHY))

    assert broken(pool(MINE, small, large), both) == [Promise.GUARANTEE]
    only = plan(Pause("large", "mine", WHY), Reserve("mine", on("n0", 1, 2, 3), WHY))
    assert broken(pool(MINE, small, large), only) == []


def test_a_reclaim_beyond_what_one_is_entitled_to():
    books = Books(pool(MINE, BORROWED))
    made = plan(Pause("big", "mine", WHY), Reserve("mine", on("n0", 0, 1, 2), WHY))
    poor = {project.name: Standing(0, None, 0, 0, 0) for project in PROJECTS}
    rich = {project.name: Standing(0, None, 6, 0, 0) for project in PROJECTS}
    books.projects["vision"] = replace(books.projects["vision"], quota=0)

    assert [each.promise for each in check_decisions(books, made, NOW, poor)] == [Promise.NO_THRASHING]
    assert check_decisions(books, made, NOW, rich) == ()


def test_a_move_must_land_on_gpus_of_its_own():
    moved = running("m", "vision", on("n0", 0))
    wide = Job("wide", "speech", gpus=4)
    good = plan(Move("m", on("n1", 0), "wide", WHY), Reserve("wide", on("n0", 0, 1, 2, 3), WHY))
    bad = plan(Move("m", on("n0", 1), "wide", WHY), Reserve("wide", on("n0", 0, 1, 2, 3), WHY))

    assert broken(pool(moved, wide), good) == []
    assert broken(pool(moved, wide), bad) == [Promise.EXCLUSIVE]


def test_a_dropped_reservation_is_free_for_others():
    made = plan(Drop("b", WHY), Start("a", on("n0", 0, 1), WHY))

    assert broken(pool(A, Job("b", "speech", reserved=on("n0", 0))), made) == []


def test_a_pool_that_is_broken_already_is_told_apart():
    twice = pool(running("a", "vision", on("n0", 0)), running("b", "speech", on("n0", 0)))
    short = pool(running("gang", "vision", on("n0", 0), workers=2, min_workers=2))

    assert set(broken(twice, plan())) == {Promise.EXCLUSIVE}
    assert broken(short, plan()) == [Promise.GANG]
