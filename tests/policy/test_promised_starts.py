"""What becomes of GPUs that were set aside for a job that starts elsewhere after all."""

from __future__ import annotations

from springtide.scheduler.model import Job, Node, Phase, Project, Settings, Snapshot, Start, Worker
from springtide.scheduler.policy import Planner


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
