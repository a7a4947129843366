"""Which GPUs are set aside for a promised start, and what becomes of them if the job starts elsewhere."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from pools.small_pools import NODE, NOW, kinds, on, plan, running, waiting

from springtide.scheduler.model import Job, Node, Phase, Project, Reserve, Settings, Snapshot, Start, Worker
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.phases.reservations import RESERVE_AFTER


def test_what_was_set_aside_goes_to_others_in_the_plan_that_starts_the_job_elsewhere() -> None:
    promised = (Worker(0, "one", (0, 1)),)
    jobs = (
        Job("holder", "vision", phase=Phase.RUNNING, placement=(Worker(0, "one", (0,)),), started=0.0),
        Job("promised", "vision", gpus=2, submitted=1.0, reserved=promised),
        Job("small", "vision", submitted=2.0),
    )
    nodes = (Node("one", 2), Node("two", 2))
    snapshot = Snapshot(10.0, nodes, (Project("vision", quota=4),), jobs, Settings())

    starts = {
        each.job: each.placement for each in Planner(snapshot).plan(10.0).decisions if isinstance(each, Start)
    }

    assert starts == {"promised": (Worker(0, "two", (0, 1)),), "small": (Worker(0, "one", (1,)),)}


@pytest.mark.parametrize("node", [NODE, replace(NODE, sockets=(tuple(range(8)),))], ids=["plain", "one socket"])
def test_gpus_that_are_free_already_are_set_aside_first(node: Node) -> None:
    others = [running(f"r{gpu}", "a", on("dgx", gpu, gpu + 1), started=NOW - 100) for gpu in (0, 2, 4)]
    late = waiting("late", "a", 4, submitted=NOW - 2 * RESERVE_AFTER)

    decided = plan(*others, late, nodes=(node,), quotas={"a": 16}).decisions

    assert [each.placement[0].gpus for each in decided if isinstance(each, Reserve)] == [(0, 1, 6, 7)]


@pytest.mark.parametrize("priority", [50, 100, 200])
def test_a_borrower_of_weight_0_gives_way_at_once_whatever_its_priority(priority: int) -> None:
    """Others are entitled to what it borrows."""
    projects = (Project("idle", quota=1, weight=0.0, priority=priority), Project("b", age=1))
    full = (running("r1", "idle", on("dgx", 0, 1, 2, 3)), running("r2", "idle", on("dgx", 4, 5, 6, 7)))

    decided = plan(*full, waiting("w1", "b", 2), projects=projects)

    assert kinds(decided) == [("Pause", "r1"), ("Reserve", "w1")]
