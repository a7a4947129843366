"""`springtide plan`: the stable state of a scenario under the policy, without time passing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec import structs

from springtide.scheduler.model import (
    Decision,
    Job,
    JobChanged,
    Settings,
    Snapshot,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.scenario import Scenario
from springtide.scheduler.simulate.carry_out import carried_out

MOST_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Rest:
    """The state of a scenario after ``rounds`` plans with decisions; ``stable`` if the next plan was empty.

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
    settings = Settings(min_runtime=0.0, grace=0.0, surplus=scenario.surplus, gpu_types=scenario.gpu_types)
    return opened(Snapshot(0.0, scenario.nodes, scenario.projects, scenario.jobs, settings))


def opened(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot at its last submission, with no past service and no protected attempts."""
    now = max((job.submitted for job in snapshot.jobs), default=0.0)
    return replace(snapshot, now=now, jobs=tuple(_opened(job, now) for job in snapshot.jobs))


def _opened(job: Job, now: float) -> Job:
    started, attempts = (now, 1) if job.placement else (None, 0)
    if job.started == started and job.attempts == attempts and not (job.reserved or job.served or job.saved):
        return job
    return structs.replace(job, started=started, attempts=attempts, reserved=(), served=0.0, saved=None)


def settle(snapshot: Snapshot, planner: Planner | None = None) -> Rest:
    """Apply the policy repeatedly, carrying out its plans at once, until a plan is empty.

    ``planner`` must have the snapshot. Attempts are not counted, so that resumed jobs are not protected.
    """
    planner = planner or Planner(snapshot)
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
