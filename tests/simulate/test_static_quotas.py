"""Static quotas: jobs of all sizes start in the order of their submission, as far as quota and nodes reach."""

from __future__ import annotations

import random

from msgspec import structs

from springtide.scheduler.model import Job, JobChanged, JobRemoved, Node, Phase, Project, Snapshot
from springtide.scheduler.simulate.static import StaticPlanner

NODES = tuple(Node(f"n{number}", 4) for number in range(3))
QUOTA = 9


def test_a_job_starts_before_later_ones_of_every_size_unless_it_does_not_fit():
    draw = random.Random(7)
    planner = StaticPlanner(Snapshot(0.0, NODES, (Project("p", quota=QUOTA),), ()))
    waiting: list[Job] = []
    running: list[Job] = []
    passed = 0
    for at in range(400):
        job = Job(
            f"j{at:03}", "p", gpus=draw.choice([1, 1, 2, 4]), workers=draw.choice([1, 1, 2]), submitted=at // 3
        )
        if planner.fits_quota(job):
            waiting.append(job)
            planner.apply(JobChanged(job))
        if running and draw.random() < 0.6:
            planner.apply(JobRemoved(running.pop(draw.randrange(len(running))).id))
        for decision in planner.plan(float(at)).decisions:
            job = next(each for each in waiting if each.id == decision.job)
            size = job.gpus * job.workers
            earlier = [each for each in waiting if (each.submitted, each.id) < (job.submitted, job.id)]
            passed += len(earlier)
            assert all(each.gpus * each.workers > size for each in earlier if each.gpus <= job.gpus)
            waiting.remove(job)
            running.append(
                structs.replace(job, phase=Phase.RUNNING, placement=decision.placement, started=float(at))
            )
            planner.apply(JobChanged(running[-1]))
        left = QUOTA - sum(job.held_gpus for job in running)
        assert left >= 0
        assert not any(job.gpus * job.workers == 1 for job in waiting if left)

    assert passed > 20


def test_an_estimate_leaves_a_job_its_place():
    first, second = Job("j1", "p", gpus=4, submitted=1), Job("j2", "p", gpus=4, submitted=2)
    planner = StaticPlanner(Snapshot(0.0, NODES[:1], (Project("p", quota=4),), ()))
    for job in (first, second, structs.replace(first, usual_runtime=60.0)):
        planner.apply(JobChanged(job))

    assert [decision.job for decision in planner.plan(3.0).decisions] == ["j1"]
