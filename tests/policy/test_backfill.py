"""GPUs that wait for a promised start are lent to jobs that end before it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from springtide.scheduler.model import (
    Job,
    Node,
    Pause,
    Phase,
    Placement,
    Project,
    Settings,
    Snapshot,
    Start,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.promises import check_plan

NOW = 1000.0
HOLDER = Job(
    "holder",
    "other",
    preemptible=False,
    phase=Phase.RUNNING,
    placement=(Worker(0, "one", (0,)),),
    started=0.0,
    time_limit=5000.0,
)
PROMISED = Job("promised", "vision", gpus=4, submitted=1.0, reserved=(Worker(0, "one", (0, 1, 2, 3)),))
SMALL = Job("small", "vision", gpus=2, submitted=2.0, time_limit=3600.0)


def started(*jobs: Job) -> set[str]:
    projects = (Project("vision", quota=8), Project("other", quota=1))
    snapshot = Snapshot(NOW, (Node("one", 4),), projects, jobs, Settings())
    plan = Planner(snapshot).plan(NOW)
    assert not check_plan(snapshot, plan)
    return {each.job for each in plan.decisions if isinstance(each, Start)}


def test_a_job_that_ends_in_time_runs_on_what_is_set_aside() -> None:
    assert started(HOLDER, PROMISED, SMALL) == {"small"}


@pytest.mark.parametrize("limit", [None, 4001.0])
def test_a_job_that_may_last_longer_does_not(limit: float | None) -> None:
    assert started(HOLDER, PROMISED, replace(SMALL, time_limit=limit)) == set()


def test_time_that_the_job_ran_before_counts() -> None:
    paused = replace(SMALL, time_limit=5000.0, served=2 * 1500.0)
    assert started(HOLDER, PROMISED, paused) == {"small"}


def test_nothing_is_lent_while_nobody_knows_when_the_promised_start_is() -> None:
    assert started(replace(HOLDER, time_limit=None), PROMISED, SMALL) == set()


def test_the_shortest_jobs_are_lent_to_first() -> None:
    shorter = replace(SMALL, id="shorter", submitted=3.0, time_limit=600.0)
    assert started(HOLDER, PROMISED, SMALL, shorter) == {"shorter"}


def test_what_a_job_gives_up_in_the_same_plan_is_not_lent() -> None:
    """The owner takes one of the borrower's GPUs; the other is reserved, and in use until the borrower stops."""
    nodes = (Node("one", 4, gpu_type="t4"), Node("two", 1, gpu_type="a100"))
    projects = (Project("vision"), Project("owner", quota={"t4": 1}), Project("other", quota={"t4": 1}))
    borrower = replace(HOLDER, id="borrower", project="vision", preemptible=True, gpus=2, placement=on(0, 1))
    holder = replace(HOLDER, gpus=2, placement=on(2, 3))
    elsewhere = replace(HOLDER, id="elsewhere", placement=(Worker(0, "two", (0,)),))
    promised = replace(PROMISED, gpus=2, reserved=on(1, 2), turn=True)
    waiting = (Job("owns", "owner", gpu_types=("t4",)), replace(SMALL, gpus=1))
    snapshot = Snapshot(NOW, nodes, projects, (borrower, holder, elsewhere, promised, *waiting), Settings())
    plan = Planner(snapshot).plan(NOW)

    assert [each.job for each in plan.decisions if isinstance(each, Pause)] == ["borrower"]
    assert not check_plan(snapshot, plan)
    assert not [each.job for each in plan.decisions if isinstance(each, Start)]


def on(*gpus: int) -> Placement:
    return (Worker(0, "one", gpus),)
