"""The reasons of waiting jobs are true of the pool."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace as replace_job

from springtide.scheduler.model import Job, Node, Phase, Project, Settings, Snapshot, Start, Worker
from springtide.scheduler.policy import Planner
from springtide.scheduler.sentences import Role, render, text
from springtide.scheduler.simulate.settle import Rest, settle

AT_ONCE = Settings(min_runtime=0.0, grace=0.0)


def pool_at_rest(seed: int) -> tuple[Snapshot, Rest]:
    """Return a small pool with more jobs than fit, after all that can start has started."""
    draw = random.Random(seed)
    nodes = tuple(Node(f"n{at}", draw.choice([4, 8])) for at in range(draw.choice([1, 2])))
    total = sum(node.gpus for node in nodes)
    names = [f"p{at}" for at in range(draw.choice([1, 2, 3]))]
    projects = tuple(
        Project(
            name,
            quota=draw.randint(0, total // len(names)),
            age=at,
            priority=draw.choice([100, 100, 200]),
            limit=draw.choice([None, None, total // 2 + 1]),
        )
        for at, name in enumerate(names)
    )
    jobs = []
    for at in range(draw.randint(4, 16)):
        workers, priority = draw.choice([1, 1, 1, 2]), draw.choice([50, 50, 75, 100])
        jobs.append(
            Job(
                f"j{at}",
                draw.choice(names),
                name=f"j{at}",
                gpus=draw.choice([1, 1, 2, 4]),
                workers=workers,
                min_workers=workers,
                submitted=float(at),
                priority=priority,
                preemptible=priority < 100,
            )
        )
    snapshot = Snapshot(100.0, nodes, projects, tuple(jobs), AT_ONCE)
    return snapshot, settle(snapshot)


def waiting(rest: Rest) -> list[Job]:
    return [job for job in rest.jobs.values() if job.phase is Phase.WAITING]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_what_a_project_holds_and_the_place_in_line_are_as_the_pool_says(first):
    told = 0
    for seed in range(first, first + 50):
        _, rest = pool_at_rest(seed)
        standing = rest.planner.standing()
        for job in waiting(rest):
            why = rest.planner.reason(job.id, rest.now)
            if "place" in why.params:
                told += 1
                assert why.params["held"] == standing[str(why.params["at"])].held
                assert why.params["place"] == rest.planner.position(job.id)
            else:
                assert not [each for each in render(why) if each.role is Role.PLACE]
    assert told


@pytest.mark.parametrize("reserved", [(), (Worker(0, "n", (4, 5, 6, 7)),)])
def test_a_limit_that_pausing_jobs_still_fill_is_told_as_such(reserved):
    limited = Project("a", quota=0, limit=4)
    leaving = Job("old", "a", phase=Phase.PAUSING, placement=(Worker(0, "n", (0, 1, 2, 3)),), gpus=4)
    new = Job("new", "a", gpus=4, reserved=reserved)
    planner = Planner(Snapshot(0.0, (Node("n", 8),), (limited,), (leaving, new)))
    assert not [each for each in planner.plan(0.0).decisions if isinstance(each, Start)]
    assert text(planner.reason("new", 0.0)) == (
        "Pausing jobs still hold GPUs within the limit of “a”. It starts when they have stopped."
    )


def test_a_gang_that_must_share_a_domain_is_told_that_none_has_room():
    nodes = tuple(Node(f"n{at}", 4, labels={"rack": f"r{at // 2}"}) for at in range(4))
    firm = Job("firm", "a", phase=Phase.RUNNING, placement=(Worker(0, "n0", (0,)),), preemptible=False)
    other = replace_job(firm, id="other", placement=(Worker(0, "n2", (0,)),))
    gang = Job("gang", "a", gpus=4, workers=2, min_workers=2, require="rack", preemptible=False)
    planner = Planner(Snapshot(0.0, nodes, (Project("a", quota=16),), (firm, other, gang)))
    assert not planner.plan(0.0).decisions
    assert text(planner.reason("gang", 0.0)).startswith(
        "Waiting for 2 workers with 4 GPUs each in one rack: none has room."
    )


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ({"gpus": 4, "workers": 2, "require": "rack"}, "It needs 2 workers with 4 GPUs each in one rack,"),
        (
            {"gpus": 1, "workers": 2, "require": "zone"},
            "It has to be in one zone, and no node has the label zone.",
        ),
        ({"gpus": 3, "require": "island"}, "It needs 3 GPUs in one island, and none has room for that."),
        ({"gpus": 3, "workers": 2, "require": "node"}, "It needs 2 workers with 3 GPUs each in one node,"),
    ],
)
def test_a_requirement_that_the_pool_cannot_meet_is_called_that(job, told):
    nodes = tuple(Node(f"n{at}", 4, labels={"rack": f"r{at}"}, islands=((0, 1), (2, 3))) for at in range(2))
    asks = Job("asks", "a", min_workers=job.get("workers", 1), **job)
    planner = Planner(Snapshot(0.0, nodes, (Project("a", quota=8),), (asks,)))
    assert text(planner.reason("asks", 0.0)).startswith(told)
    assert planner.position("asks") is None


def test_a_start_with_more_workers_than_the_least_tells_all_it_got():
    elastic = Job("e", "a", gpus=1, workers=8, min_workers=2)
    planner = Planner(Snapshot(0.0, (Node("n", 8),), (Project("a", quota=2),), (elastic,)))
    (start,) = planner.plan(0.0).decisions
    assert len(start.placement) == 8
    assert text(start.reason) == "Enough GPUs were idle, so it started on 8 GPUs: 2 within the quota, 6 borrowed."
