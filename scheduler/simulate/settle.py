"""`springtide plan`: the stable state of a scenario under the policy, without time passing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from msgspec import structs

from springtide.scheduler import sentences
from springtide.scheduler.model import (
    Decision,
    Job,
    JobChanged,
    Reason,
    Settings,
    Snapshot,
    Standing,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.scenario import Scenario
from springtide.scheduler.simulate.carry_out import carried_out

MOST_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Rest:
    """The state of a scenario after ``rounds`` plans with decisions; ``stable`` tells whether they ended.

    ``gpu_types`` are the types of the nodes by name.
    """

    stable: bool
    rounds: int
    jobs: dict[str, Job]
    planner: Planner
    now: float
    gpu_types: dict[str, str]


def opening(scenario: Scenario) -> Snapshot:
    """Return the scenario's state at its last submission, with no past service and no protected attempts."""
    now = max((job.submitted for job in scenario.jobs), default=0.0)
    jobs = tuple(structs.replace(job, started=now) if job.placement else job for job in scenario.jobs)
    settings = Settings(min_runtime=0.0, grace=0.0, surplus=scenario.surplus, gpu_types=scenario.gpu_types)
    return Snapshot(now, scenario.nodes, scenario.projects, jobs, settings)


def settle(snapshot: Snapshot) -> Rest:
    """Apply the policy repeatedly, carrying out its plans at once, until a plan is empty.

    Attempts are not counted, so that none is protected for having been resumed.
    """
    planner = Planner(snapshot)
    jobs = {job.id: job for job in snapshot.jobs}
    gpu_types = {node.name: node.gpu_type for node in snapshot.nodes}
    for rounds in range(MOST_ROUNDS):
        decisions = planner.plan(snapshot.now).decisions
        if not decisions:
            return Rest(True, rounds, jobs, planner, snapshot.now, gpu_types)
        for decision in decisions:
            jobs[decision.job] = _carry_out(planner, jobs[decision.job], decision, snapshot.now)
    return Rest(False, MOST_ROUNDS, jobs, planner, snapshot.now, gpu_types)


def _carry_out(planner: Planner, job: Job, decision: Decision, now: float) -> Job:
    after = structs.replace(carried_out(job, decision, now), attempts=0)
    planner.apply(JobChanged(after))
    return after


def as_json(rest: Rest, file: str) -> dict[str, object]:
    """Return what `springtide plan` prints for one file."""
    standing = rest.planner.standing()
    reasons = _reasons(rest)
    return {
        "file": file,
        "stable": rest.stable,
        "rounds": rest.rounds,
        "projects": {name: _shown(own) for name, own in standing.items()},
        "jobs": {
            job.id: {
                "running": len(job.placement),
                "nodes": [worker.node for worker in job.placement],
                "reason": sentences.text(reasons[job.id]),
            }
            for job in rest.jobs.values()
        },
    }


def _shown(standing: Standing) -> dict[str, object]:
    """Return the numbers of a project, as tables on a pool with several GPU types."""
    fields = ("quota", "fair_share", "held", "request")
    if not standing.by_type:
        return {field: getattr(standing, field) for field in fields}
    return {field: {name: getattr(own, field) for name, own in standing.by_type.items()} for field in fields}


def _reasons(rest: Rest) -> dict[str, Reason]:
    """Return by job why it waits, or what it holds and how much of that is borrowed.

    Jobs fill the quota of their project in the order in which they started, jobs that are not preemptible first.
    """
    standing = rest.planner.standing()
    filled: Counter[tuple[str, str]] = Counter()
    found: dict[str, Reason] = {}
    for job in sorted(
        rest.jobs.values(), key=lambda each: (each.preemptible, each.started or 0.0, each.submitted)
    ):
        why = rest.planner.reason(job.id, rest.now)
        gpu_type = rest.gpu_types[job.placement[0].node] if job.placement else ""
        quota = standing[job.project].by_type.get(gpu_type, standing[job.project]).quota
        if job.placement and quota is not None:
            filled[job.project, gpu_type] += job.held_gpus
            borrowed = min(job.held_gpus, max(0, filled[job.project, gpu_type] - quota))
            why = replace(why, params={**why.params, "borrowed": borrowed})
        found[job.id] = why
    return found
