"""The checker on single plans and short histories: it tells what is wrong, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from histories.living import live_through

from springtide.scheduler.model import (
    Decision,
    Drop,
    Environment,
    Job,
    JobChanged,
    JobRemoved,
    Move,
    Node,
    Order,
    Pause,
    Phase,
    Placement,
    Plan,
    Project,
    Reason,
    Reserve,
    Settings,
    Snapshot,
    Standing,
    Start,
    Worker,
)
from springtide.scheduler.promises import (
    Books,
    Promise,
    Step,
    Watch,
    check_decisions,
    check_history,
    check_plan,
    check_rest,
)
from springtide.scheduler.resources.share import Share

NOW = 1000.0
WHY = Reason("planted")
NODES = (
    Node("n0", 4, labels={"rack": "r0"}),
    Node("n1", 4, labels={"rack": "r1"}),
    Node("away", 4, available=False),
    Node("login", 2, environment=Environment.BUILD),
    Node("shared", 2, taken=frozenset({0})),
)
PROJECTS = (
    Project("lab", quota=6),
    Project("vision", "lab", quota=3, age=1),
    Project("speech", "lab", quota=3, age=2),
    Project("ops", quota=2, limit=3, age=3),
)


def on(node: str, *gpus: int, per: int = 0) -> Placement:
    """Workers with ``per`` GPUs each, or one with all of them."""
    per = per or len(gpus)
    return tuple(Worker(rank, node, gpus[at : at + per]) for rank, at in enumerate(range(0, len(gpus), per)))


def running(job_id: str, project: str, placement: Placement, **fields: Any) -> Job:
    shape: dict[str, Any] = {
        "workers": len(placement),
        "min_workers": len(placement),
        "gpus": len(placement[0].gpus),
    }
    job = Job(job_id, project, phase=Phase.RUNNING, placement=placement, started=0.0, attempts=1)
    return replace(job, **{**shape, **fields})


def pool(*jobs: Job, **settings: Any) -> Snapshot:
    return Snapshot(NOW, NODES, PROJECTS, jobs, Settings(**{"order": Order.FIRST_COME, **settings}))


def on_sockets(*jobs: Job) -> Snapshot:
    """The pool with a first node of two sockets, of which each has one of two linked GPUs."""
    known = replace(NODES[0], islands=((1, 2), (0,)), sockets=((0, 1), (2, 3)))
    return replace(pool(*jobs), nodes=(known, *NODES[1:]))


def with_share(job: Job, share: Share) -> Snapshot:
    """The pool with a first node of which it is known what its GPUs come with."""
    return replace(pool(job), nodes=(replace(NODES[0], share=share), *NODES[1:]))


def plan(*decisions: Decision) -> Plan:
    return Plan(decisions)


def broken(snapshot: Snapshot, made: Plan) -> list[Promise]:
    return [breach.promise for breach in check_plan(snapshot, made)]


A = Job("a", "vision", gpus=2)
GANG = Job("gang", "vision", workers=2, min_workers=2, gpus=1)

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
        pool(replace(A, phase=Phase.HELD)),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.NOTHING_LOST],
    ),
    "of no job": (pool(), Start("ghost", on("n0", 0), WHY), [Promise.NOTHING_LOST]),
    "before its time": (
        pool(replace(A, not_before=NOW + 1)),
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
        pool(replace(GANG, require="rack")),
        Start("gang", (Worker(0, "n0", (0,)), Worker(1, "n1", (0,))), WHY),
        [Promise.GANG],
    ),
    "across sockets that must not be": (
        on_sockets(replace(GANG, require="socket")),
        Start("gang", on("n0", 1, 2, per=1), WHY),
        [Promise.GANG],
    ),
    "on a socket": (on_sockets(replace(GANG, require="socket")), Start("gang", on("n0", 2, 3, per=1), WHY), []),
    "on a node whose sockets are not known": (
        on_sockets(replace(GANG, require="socket")),
        Start("gang", on("n1", 1, 2, per=1), WHY),
        [],
    ),
    "across islands that must not be": (
        on_sockets(replace(GANG, require="island")),
        Start("gang", on("n0", 0, 1, per=1), WHY),
        [Promise.GANG],
    ),
    "on a GPU that is on no island": (
        on_sockets(replace(GANG, require="island")),
        Start("gang", on("n0", 0, 3, per=1), WHY),
        [Promise.GANG],
    ),
    "on a type of GPU that does not do": (
        pool(replace(A, gpu_types=("h100",))),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.GANG],
    ),
    "on a node with too few cores for it": (
        with_share(replace(A, share=Share(5.0, 0)), Share(4.0, 1.0)),
        Start("a", on("n0", 0, 1), WHY),
        [Promise.GANG],
    ),
    "on a node with enough memory for it": (
        with_share(replace(A, share=Share(0, 0.5)), Share(4.0, 1.0)),
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


BORROWED = running("big", "ops", on("n0", 0, 1, 2), preemptible=True)
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
        pool(MINE, replace(BORROWED, preemptible=False)),
        "big",
        on("n0", 0, 1, 2),
        [Promise.NO_THRASHING],
    ),
    "inside the minimum run time": (
        pool(MINE, replace(BORROWED, started=NOW - 10), min_runtime=60.0),
        "big",
        on("n0", 0, 1, 2),
        [Promise.NO_THRASHING],
    ),
    "inside the minimum run time for one that cannot be paused": (
        pool(replace(MINE, preemptible=False), replace(BORROWED, started=NOW - 10), min_runtime=60.0),
        "big",
        on("n0", 0, 1, 2),
        [],
    ),
    "whose GPUs nobody is given": (pool(MINE, BORROWED), "big", on("n1", 0, 1, 2), [Promise.NO_THRASHING]),
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
        pool(replace(MINE, priority=75), running("v", "vision", on("n0", 0, 1, 2))),
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


RESTS = {
    "a job that fits": (pool(A), 1),
    "a job that fits nowhere": (pool(Job("a", "vision", gpus=8)), 0),
    "a job above its limit": (pool(Job("a", "ops", gpus=4)), 0),
    "a job that must not start yet": (pool(replace(A, not_before=NOW + 1)), 0),
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
