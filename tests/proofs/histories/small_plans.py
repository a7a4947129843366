"""A small pool, and plans for it, to check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from springtide.scheduler.model import (
    Decision,
    Environment,
    Job,
    Node,
    Order,
    Phase,
    Placement,
    Plan,
    Project,
    Reason,
    Settings,
    Snapshot,
    Worker,
)
from springtide.scheduler.promises import (
    Promise,
    check_plan,
)
from springtide.scheduler.resources.per_gpu import PerGpu

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
    """A job that has run since the beginning."""
    shape: dict[str, Any] = {
        "workers": len(placement),
        "min_workers": len(placement),
        "gpus": len(placement[0].gpus),
    }
    job = Job(job_id, project, phase=Phase.RUNNING, placement=placement, started=0.0, attempts=1)
    return structs.replace(job, **{**shape, **fields})


def pool(*jobs: Job, **settings: Any) -> Snapshot:
    """The pool with these jobs."""
    return Snapshot(NOW, NODES, PROJECTS, jobs, Settings(**{"order": Order.FIRST_COME, **settings}))


def on_sockets(*jobs: Job) -> Snapshot:
    """The pool with a first node of two sockets, of which each has one of two linked GPUs."""
    known = structs.replace(NODES[0], islands=((1, 2), (0,)), sockets=((0, 1), (2, 3)))
    return replace(pool(*jobs), nodes=(known, *NODES[1:]))


def with_per_gpu(job: Job, per_gpu: PerGpu) -> Snapshot:
    """The pool with a first node of which it is known what its GPUs come with."""
    return replace(pool(job), nodes=(structs.replace(NODES[0], per_gpu=per_gpu), *NODES[1:]))


def plan(*decisions: Decision) -> Plan:
    """The plan of these decisions."""
    return Plan(decisions)


def broken(snapshot: Snapshot, made: Plan) -> list[Promise]:
    """The promises that a plan breaks."""
    return [breach.promise for breach in check_plan(snapshot, made)]


A = Job("a", "vision", gpus=2)
GANG = Job("gang", "vision", workers=2, min_workers=2, gpus=1)
BORROWED = running("big", "ops", on("n0", 0, 1, 2), preemptible=True)
