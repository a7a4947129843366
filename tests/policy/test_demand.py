"""Demand is what could run: a job that can never run changes nothing for the others."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from springtide.scheduler.gpu_types import project_of_type
from springtide.scheduler.model import (
    Job,
    JobChanged,
    Node,
    NodesChanged,
    Order,
    Phase,
    Plan,
    Project,
    ProjectsChanged,
    Settings,
    Snapshot,
    Surplus,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.demand import Cause, impossible
from springtide.scheduler.resources.per_gpu import PerGpu
from springtide.scheduler.simulate.settle import settle

NODES = tuple(
    Node(
        f"n{at}",
        4,
        labels={"rack": f"r{at // 2}"} if at < 3 else {},
        islands=((0, 1), (2, 3)),
        per_gpu=PerGpu(8.0, 64.0),
    )
    for at in range(4)
)
PROJECTS = (
    Project("team", quota=8, limit=12, age=0),
    Project("a", "team", quota=4, limit=8, age=1),
    Project("b", quota=8, age=2),
)

NEVER: dict[str, tuple[dict[str, Any], Cause, str, int]] = {
    "wider than any node": ({"gpus": 5}, Cause.WORKER, "", 4),
    "larger than the pool": ({"project": "b", "gpus": 4, "workers": 5}, Cause.GANG, "", 4),
    "above the limit of its project": ({"gpus": 4, "workers": 3}, Cause.LIMIT, "a", 8),
    "above the limit of a parent": ({"project": "team", "gpus": 4, "workers": 4}, Cause.LIMIT, "team", 12),
    "not preemptible beyond the quota": ({"gpus": 1, "workers": 5, "preemptible": False}, Cause.QUOTA, "a", 4),
    "of a level that no node has": ({"require": "zone"}, Cause.LEVEL, "zone", 0),
    "larger than any rack": (
        {"project": "b", "gpus": 4, "workers": 3, "require": "rack"},
        Cause.DOMAIN,
        "rack",
        2,
    ),
    "larger than any node together": ({"gpus": 2, "workers": 3, "require": "node"}, Cause.DOMAIN, "node", 2),
    "larger than any island": ({"gpus": 3, "require": "island"}, Cause.DOMAIN, "island", 0),
    "with more cores than GPUs come with": ({"per_gpu": PerGpu(16.0)}, Cause.PER_GPU, "", 0),
    "with network cards that no node has": ({"per_gpu": PerGpu(rdma=1.0)}, Cause.RDMA, "", 0),
    "on GPUs of another type": ({"gpu_types": ("h100",)}, Cause.NODES, "", 0),
}


def never(name: str, **more: Any) -> Job:
    fields: dict[str, Any] = {"project": "a", **NEVER[name][0], **more}
    return Job(id="never", min_workers=fields.get("workers", 1), **fields)


@pytest.mark.parametrize("quota", [0, 3])
def test_a_parent_is_entitled_to_nothing_beyond_quotas_that_only_a_child_of_weight_0_wants(quota: int) -> None:
    projects = (
        Project("team", quota=quota, age=0),
        Project("idle", "team", quota=quota, weight=0.0, age=1),
        Project("busy", "team", age=2),
        Project("b", age=3),
    )
    jobs = [Job(f"{project}{at}", project) for project in ("idle", "b") for at in range(16)]
    planner = Planner(Snapshot(1.0, NODES, projects, tuple(jobs), Settings()))

    assert shares(planner) == {"team": quota, "idle": quota, "busy": 0, "b": 16 - quota}

    planner.apply(JobChanged(Job("busy", "busy", gpus=4)))

    assert shares(planner) == {"team": quota + 4, "idle": quota, "busy": 4, "b": 12 - quota}


def shares(planner: Planner) -> dict[str, int]:
    return {name: each.fair_share for name, each in planner.standing().items()}


@pytest.mark.parametrize("name", NEVER)
def test_the_cause_is_named_with_the_bound(name):
    state = ClusterState(NODES, (project_of_type(each, "", ("",)) for each in PROJECTS), Settings())
    job = never(name)

    assert impossible(state.pool, state.leaf_of(job), job) == NEVER[name][1:]


@pytest.mark.parametrize("name", NEVER)
def test_what_can_never_run_stands_in_no_line_and_asks_for_nothing(name):
    planner = Planner(Snapshot(0.0, NODES, PROJECTS, (never(name),)))

    assert planner.position("never") is None
    assert all(each.request == each.fair_share == 0 for each in planner.standing().values())


def test_what_a_job_could_run_with_is_what_it_asks_for():
    """Of twelve workers the limit of the project permits eight, and the rack that it requires holds four."""
    wide = Job("wide", "a", workers=12, min_workers=1)
    in_rack = structs.replace(wide, gpus=2, require="rack")

    def request(job):
        return Planner(Snapshot(0.0, NODES, PROJECTS, (job,))).standing()["a"].request

    assert (request(wide), request(in_rack)) == (8, 8)
    assert request(structs.replace(in_rack, require="node")) == 4


def test_a_job_counts_where_it_could_run():
    """A job that accepts two types counts for the first of them that could hold it."""
    nodes = (Node("small", 2, "t4"), Node("large", 8, "a100"))
    projects = (Project("a", quota={"t4": 2, "a100": 0}), Project("b", quota={"t4": 0, "a100": 8}, age=1))
    held = Job("b1", "b", gpus=8, phase=Phase.RUNNING, placement=(Worker(0, "large", tuple(range(8))),))
    asks = Job("asks", "a", gpus=4, gpu_types=("t4", "a100"))
    planner = Planner(Snapshot(0.0, nodes, projects, (held, asks)))

    by_type = planner.standing()["a"].by_type
    assert {name: each.request for name, each in by_type.items()} == {"t4": 0, "a100": 4}


def test_a_job_asks_again_once_the_pool_could_hold_it():
    wide = Job("wide", "b", gpus=4, workers=4, min_workers=4)
    planner = Planner(Snapshot(0.0, NODES, PROJECTS, (wide,)))
    assert planner.standing()["b"].request == 16

    planner.apply(NodesChanged((*NODES[:3], structs.replace(NODES[3], available=False))))
    assert (planner.position("wide"), planner.standing()["b"].request) == (None, 0)

    planner.apply(NodesChanged(NODES))
    assert (planner.position("wide"), planner.standing()["b"].request) == (1, 16)

    planner.apply(ProjectsChanged((*PROJECTS[:2], replace(PROJECTS[2], limit=15))))
    assert (planner.position("wide"), planner.standing()["b"].request) == (None, 0)


def test_jobs_behind_one_that_can_never_run_are_first_in_line():
    behind = Job("behind", "a", submitted=1.0)
    full = Job("full", "b", gpus=4, workers=4, min_workers=4, preemptible=False, priority=100)
    planner = Planner(Snapshot(0.0, NODES, PROJECTS, (never("larger than any island"), behind, full)))

    assert planner.position("behind") == 1


def _some_pool(seed: int) -> Snapshot:
    draw = random.Random(seed)
    total = sum(node.gpus for node in NODES)
    projects = (
        Project("team", quota=draw.randint(0, total // 2), limit=draw.choice([None, 12]), age=0),
        Project("a", "team", limit=draw.choice([None, 8]), age=1, weight=draw.choice([1.0, 2.0])),
        Project("b", quota=draw.randint(0, total // 2), age=2, priority=draw.choice([100, 100, 200])),
        Project("c", age=3),
    )
    jobs = []
    for at in range(draw.randint(3, 14)):
        workers, priority = draw.choice([1, 1, 1, 2, 3]), draw.choice([50, 50, 75, 100])
        jobs.append(
            Job(
                f"j{at}",
                draw.choice(["team", "a", "b", "c"]),
                gpus=draw.choice([1, 1, 2, 3, 4]),
                workers=workers,
                min_workers=draw.randint(1, workers),
                submitted=float(at),
                priority=priority,
                preemptible=priority < 100,
                require=draw.choice([None, None, "rack", "node"]),
            )
        )
    settings = Settings(
        draw.choice(list(Order)), min_runtime=draw.choice([0.0, 300.0]), surplus=draw.choice(list(Surplus))
    )
    return Snapshot(100.0, NODES, projects, tuple(jobs), settings)


def _some_that_never_run(draw: random.Random, snapshot: Snapshot) -> tuple[Job, ...]:
    """Jobs of any project, priority and age that this pool cannot hold."""
    physical = [name for name, (_, cause, *_rest) in NEVER.items() if cause not in {Cause.LIMIT, Cause.QUOTA}]
    return tuple(
        structs.replace(
            never(draw.choice(physical)),
            id=f"never{at}",
            project=draw.choice(snapshot.projects).name,
            priority=draw.choice([10, 50, 75, 200]),
            submitted=draw.choice([0.0, 50.0]),
        )
        for at in range(draw.randint(1, 3))
    )


def _outcome(snapshot: Snapshot) -> tuple[dict[str, Job], dict[str, Any], dict[str, tuple[Any, ...]]]:
    rest = settle(snapshot)
    standing = dict(rest.planner.standing())
    told = {
        job.id: (rest.planner.position(job.id), rest.planner.reason(job.id, rest.now))
        for job in rest.jobs.values()
        if not job.id.startswith("never")
    }
    return {name: job for name, job in rest.jobs.items() if not name.startswith("never")}, standing, told


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_adding_jobs_that_can_never_run_changes_nothing_for_the_others(first):
    for seed in range(first, first + 50):
        snapshot = _some_pool(seed)
        more = _some_that_never_run(random.Random(seed), snapshot)

        assert _outcome(replace(snapshot, jobs=(*snapshot.jobs, *more))) == _outcome(snapshot), seed


def test_a_plan_with_a_job_that_can_never_run_is_the_plan_without_it():
    """Also over time: reservations, waiting and wake-ups are those of the other jobs."""
    for seed in range(40):
        snapshot = _some_pool(seed)
        planners = [Planner(snapshot), Planner(snapshot)]
        for job in _some_that_never_run(random.Random(seed), snapshot):
            planners[1].apply(JobChanged(job))
        plans: list[list[Plan]] = [[planner.plan(at) for at in (100.0, 4_000.0, 8_000.0)] for planner in planners]

        assert plans[0] == plans[1], seed
