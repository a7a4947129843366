"""Runs the policy to a fixpoint on scenarios: decisions take effect at once, and no time passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from springtide.scheduler.model import (
    Job,
    JobChanged,
    Node,
    Order,
    Phase,
    Plan,
    Project,
    Settings,
    Snapshot,
    Standing,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.simulate.carry_out import carried_out


@dataclass
class Settled:
    stable: bool
    jobs: dict[str, Job]
    standing: dict[str, Standing]
    plans: list[Plan]


def snapshot_of(scenario: dict[str, Any], order: Order = Order.LEAST_SERVED) -> Snapshot:
    nodes = tuple(
        Node(each["name"], each["gpus"], gpu_type=each.get("gpu_type", ""), labels=each.get("labels", {}))
        for each in scenario["nodes"]
    )
    projects = tuple(
        Project(
            each["name"],
            each.get("parent"),
            each.get("quota", 0),
            each.get("limit"),
            each.get("weight", 1),
            each.get("priority", 100),
            age,
        )
        for age, each in enumerate(scenario["projects"])
    )
    free = {node.name: list(range(node.gpus)) for node in nodes}
    jobs = tuple(_job(each, free) for each in scenario["jobs"])
    return Snapshot(0.0, nodes, projects, jobs, Settings(order=order))


def _job(each: dict[str, Any], free: dict[str, list[int]]) -> Job:
    priority = each.get("priority", 50)
    workers, gpus = each.get("workers", 1), each.get("gpus", 1)
    placement: list[Worker] = []
    for node in each.get("placed", []):
        if node is not None:
            taken, free[node] = free[node][:gpus], free[node][gpus:]
            placement.append(Worker(len(placement), node, tuple(taken)))
    return Job(
        id=each["name"],
        name=each["name"],
        project=each["project"],
        priority=priority,
        preemptible=each.get("preemptible", priority < 100),
        workers=workers,
        gpus=gpus,
        min_workers=each.get("min_workers", workers),
        submitted=each.get("submitted", 0),
        require=each.get("require"),
        prefer=each.get("prefer"),
        gpu_types=tuple(each.get("gpu_types", ())),
        phase=Phase.RUNNING if placement else Phase.WAITING,
        placement=tuple(placement),
        started=0.0 if placement else None,
    )


def settle(snapshot: Snapshot, rounds: int = 50) -> Settled:
    planner = Planner(snapshot)
    jobs = {job.id: job for job in snapshot.jobs}
    plans: list[Plan] = []
    for _ in range(rounds):
        plan = planner.plan(0.0)
        if not plan.decisions:
            return Settled(True, jobs, dict(planner.standing()), plans)
        plans.append(plan)
        for decision in plan.decisions:
            jobs[decision.job] = carried_out(jobs[decision.job], decision, 0.0)
        for decision in plan.decisions:
            planner.apply(JobChanged(jobs[decision.job]))
    return Settled(False, jobs, dict(planner.standing()), plans)


@pytest.fixture(name="settle")
def settle_fixture() -> Callable[[dict[str, Any]], Settled]:
    return lambda scenario: settle(snapshot_of(scenario))
