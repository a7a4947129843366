"""Small pools to plan on: one node of 8 GPUs and two projects, unless a test specifies others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from springtide.scheduler.model import (
    Job,
    Node,
    Order,
    Phase,
    Placement,
    Plan,
    Project,
    Settings,
    Snapshot,
    Worker,
)
from springtide.scheduler.policy import Planner

NOW = 10_000.0
NODE = Node("dgx", 8)
CALM = Settings(order=Order.FIRST_COME)
ROTATING = Settings(order=Order.LEAST_SERVED)


def on(node: str, *gpus: int, rank: int = 0) -> Placement:
    """Return the placement of one worker."""
    return (Worker(rank, node, gpus),)


def running(name: str, project: str, placement: Placement, started: float = 0.0, **more: Any) -> Job:
    """Return a job that runs with all its workers, unless ``workers`` requests more."""
    gpus = len(placement[0].gpus)
    return Job(
        name,
        project,
        name=name,
        gpus=gpus,
        workers=more.pop("workers", len(placement)),
        min_workers=more.pop("min_workers", len(placement)),
        phase=Phase.RUNNING,
        placement=placement,
        started=started,
        submitted=started,
        **more,
    )


def waiting(name: str, project: str, gpus: int = 1, workers: int = 1, **more: Any) -> Job:
    """Return a job that was submitted just now and needs all its workers."""
    more = {"min_workers": workers, "submitted": NOW, **more}
    return Job(name, project, name=name, gpus=gpus, workers=workers, **more)


def pool(
    *jobs: Job,
    nodes: Sequence[Node] = (NODE,),
    quotas: Mapping[str, int] | None = None,
    settings: Settings = CALM,
    projects: Sequence[Project] = (),
) -> Snapshot:
    """Return a pool with these jobs; ``projects`` are those of ``quotas``, oldest first."""
    given = {"a": 4, "b": 4} if quotas is None else quotas
    made = (Project(name, quota=quota, age=age) for age, (name, quota) in enumerate(given.items()))
    return Snapshot(NOW, tuple(nodes), tuple(projects) or tuple(made), jobs, settings)


def plan(*jobs: Job, now: float = NOW, **more: Any) -> Plan:
    """Return the plan of the policy for such a pool."""
    return Planner(pool(*jobs, **more)).plan(now)


def kinds(decided: Plan) -> list[tuple[str, str]]:
    """Return the decisions, each as its kind and its job."""
    return [(type(decision).__name__, decision.job) for decision in decided.decisions]
