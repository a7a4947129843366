"""Which of several running jobs gives way: the one that loses least, as far as that makes a difference."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from springtide.scheduler.model import Job, Node, Order, Pause, Phase, Project, Settings, Snapshot, Worker
from springtide.scheduler.policy import Planner


def training(name, node, gpus, *, started, saved=None, priority=50):
    placed = (Worker(0, node, gpus),)
    return Job(
        name,
        "susan",
        name=name,
        gpus=len(gpus),
        priority=priority,
        phase=Phase.RUNNING,
        placement=placed,
        submitted=started,
        started=started,
        saved=saved,
    )


def pauses(*running: Job, now: float, need: int = 2, nodes=("dgx",)):
    """The jobs that are paused when joe wants GPUs back."""
    projects = (Project("susan", quota=6, age=0), Project("joe", quota=2, age=1))
    wanted = Job("joe-1", "joe", name="joe-1", gpus=need, submitted=now)
    pool = tuple(Node(name, 8 // len(nodes)) for name in nodes)
    snapshot = Snapshot(now, pool, projects, (*running, wanted), Settings(order=Order.FIRST_COME))
    return [each.job for each in Planner(snapshot).plan(now).decisions if isinstance(each, Pause)]


@pytest.mark.parametrize("saved_first", ["older", "newer"])
@pytest.mark.parametrize("now", [1000.0, 1200.2, 1319.9])
@pytest.mark.parametrize("nodes", [("dgx", "dgx"), ("n1", "n2"), ("n2", "n1")])
def test_of_two_that_save_all_the_time_the_newer_one_gives_way(saved_first, now, nodes):
    saved = {"older": now - 0.4, "newer": now - 0.4, saved_first: now - 0.9}
    older = training("older", nodes[0], (0, 1, 2, 3), started=100.0, saved=saved["older"])
    second = (4, 5, 6, 7) if nodes[0] == nodes[1] else (0, 1, 2, 3)
    newer = training("newer", nodes[1], second, started=400.0, saved=saved["newer"])

    assert pauses(older, newer, now=now, nodes=tuple(dict.fromkeys(nodes))) == ["newer"]


def test_of_two_that_were_submitted_together_the_later_one_gives_way_whichever_reports_its_start_first():
    older = replace(training("older", "dgx", (0, 1, 2, 3), started=100.9), submitted=100.0)
    newer = replace(training("newer", "dgx", (4, 5, 6, 7), started=100.3), submitted=100.1)

    assert pauses(older, newer, now=200.0) == ["newer"]


def test_of_two_that_save_all_the_time_the_less_urgent_one_gives_way():
    older = training("older", "dgx", (0, 1, 2, 3), started=100.0, saved=999.5, priority=50)
    urgent = training("urgent", "dgx", (4, 5, 6, 7), started=400.0, saved=999.9, priority=75)

    assert pauses(older, urgent, now=1000.0) == ["older"]


def test_the_one_with_minutes_of_work_at_stake_is_spared():
    older = training("older", "dgx", (0, 1, 2, 3), started=100.0, saved=995.0)
    newer = training("newer", "dgx", (4, 5, 6, 7), started=400.0, saved=500.0)

    assert pauses(older, newer, now=1000.0) == ["older"]


def test_a_job_that_has_just_saved_still_counts_as_at_work():
    """Pausing one that fits the need is better than pausing more than is needed, however lately that was saved."""
    fits = training("fits", "dgx", (0, 1), started=100.0, saved=100.0)
    saved = training("saved", "dgx", (2, 3, 4, 5, 6, 7), started=100.0, saved=1000.0)

    assert pauses(fits, saved, now=1000.0) == ["fits"]


def test_a_limit_below_the_quota_is_all_that_is_guaranteed():
    holds = training("holds", "dgx", (0, 1, 2, 3), started=100.0)
    projects = (Project("susan", quota=4, limit=2, age=0), Project("joe", quota=8, age=1))
    wanted = Job("joe-1", "joe", name="joe-1", gpus=6, submitted=1000.0)
    planner = Planner(Snapshot(1000.0, (Node("dgx", 8),), projects, (holds, wanted)))

    assert [each.job for each in planner.plan(1000.0).decisions if isinstance(each, Pause)] == ["holds"]


@pytest.mark.parametrize(("had", "gives_way"), [(1800.0, ["runs"]), (36_000.0, [])])
def test_in_turn_only_for_an_equal_that_has_had_less_however_long_it_waited(had, gives_way):
    now = 30 * 86_400.0
    runs = training("runs", "dgx", tuple(range(8)), started=now - 2000.0, saved=now)
    waits = Job("waits", "susan", name="waits", gpus=8, submitted=0.0, served=had, attempts=1)
    project = Project("susan", quota=8)
    snapshot = Snapshot(now, (Node("dgx", 8),), (project,), (runs, waits), Settings(order=Order.LEAST_SERVED))

    planned = Planner(snapshot).plan(now).decisions
    assert [each.job for each in planned if isinstance(each, Pause)] == gives_way
