"""`springtide plan`: the stable state of a scenario under the policy, without time passing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from springtide.scheduler import sentences
from springtide.scheduler.model import (
    Decision,
    Job,
    JobChanged,
    Reason,
    Settings,
    Snapshot,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.scenario import Scenario
from springtide.scheduler.simulate.carry_out import carried_out

MOST_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Rest:
    """The state of a scenario after ``rounds`` plans with decisions; ``stable`` tells whether they ended."""

    stable: bool
    rounds: int
    jobs: dict[str, Job]
    planner: Planner
    now: float


def opening(scenario: Scenario) -> Snapshot:
    """Return the scenario's state at its last submission, with no past service and no protected attempts."""
    now = max((job.submitted for job in scenario.jobs), default=0.0)
    jobs = tuple(replace(job, started=now) if job.placement else job for job in scenario.jobs)
    return Snapshot(now, scenario.nodes, scenario.projects, jobs, Settings(min_runtime=0.0, grace=0.0))


def settle(snapshot: Snapshot) -> Rest:
    """Apply the policy repeatedly, carrying out its plans at once, until a plan is empty."""
    planner = Planner(snapshot)
    jobs = {job.id: job for job in snapshot.jobs}
    for rounds in range(MOST_ROUNDS):
        decisions = planner.plan(snapshot.now).decisions
        if not decisions:
            return Rest(True, rounds, jobs, planner, snapshot.now)
        for decision in decisions:
            jobs[decision.job] = _carry_out(planner, jobs[decision.job], decision, snapshot.now)
    return Rest(False, MOST_ROUNDS, jobs, planner, snapshot.now)


def _carry_out(planner: Planner, job: Job, decision: Decision, now: float) -> Job:
    after = carried_out(job, decision, now)
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
        "projects": {
            name: {
                "quota": own.quota,
                "fair_share": own.fair_share,
                "held": own.held,
                "request": own.request,
            }
            for name, own in standing.items()
        },
        "jobs": {
            job.id: {
                "running": len(job.placement),
                "nodes": [worker.node for worker in job.placement],
                "reason": sentences.text(reasons[job.id]),
            }
            for job in rest.jobs.values()
        },
    }


def _reasons(rest: Rest) -> dict[str, Reason]:
    """Return by job why it waits, or what it holds and how much of that is borrowed.

    Jobs fill the quota of their project in the order in which they started, jobs that are not preemptible first.
    """
    quotas = {name: own.quota for name, own in rest.planner.standing().items()}
    filled: Counter[str] = Counter()
    found: dict[str, Reason] = {}
    for job in sorted(
        rest.jobs.values(), key=lambda each: (each.preemptible, each.started or 0.0, each.submitted)
    ):
        why = rest.planner.reason(job.id, rest.now)
        quota = quotas.get(job.project)
        if job.placement and quota is not None:
            filled[job.project] += job.held_gpus
            borrowed = min(job.held_gpus, max(0, filled[job.project] - quota))
            why = replace(why, params={**why.params, "borrowed": borrowed})
        found[job.id] = why
    return found
