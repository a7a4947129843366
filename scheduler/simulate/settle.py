"""`springtide plan`: where a scenario comes to rest under the policy, no time passing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from springtide.scheduler.model import (
    Decision,
    Job,
    JobChanged,
    Phase,
    Reason,
    Settings,
    Snapshot,
)
from springtide.scheduler.policy import Planner, reasons
from springtide.scheduler.scenario import Scenario
from springtide.scheduler.simulate.carry_out import carried_out

MOST_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Rest:
    """Where a scenario came to rest after ``rounds`` plans that changed something, or that it did not."""

    stable: bool
    rounds: int
    jobs: dict[str, Job]
    why: dict[str, Reason]
    """Why each job was last started or moved."""
    planner: Planner
    now: float


def opening(scenario: Scenario) -> Snapshot:
    """The scenario as it stands, at the last submission: nobody has had any service, nothing is protected."""
    now = max((job.submitted for job in scenario.jobs), default=0.0)
    jobs = tuple(replace(job, started=now) if job.placement else job for job in scenario.jobs)
    return Snapshot(now, scenario.nodes, scenario.projects, jobs, Settings(min_runtime=0.0, grace=0.0))


def settle(snapshot: Snapshot) -> Rest:
    """Apply the policy again and again, carrying its plans out at once, until nothing changes."""
    planner = Planner(snapshot)
    jobs = {job.id: job for job in snapshot.jobs}
    why: dict[str, Reason] = {}
    for rounds in range(MOST_ROUNDS):
        decisions = planner.plan(snapshot.now).decisions
        if not decisions:
            return Rest(True, rounds, jobs, why, planner, snapshot.now)
        for decision in decisions:
            why[decision.job] = decision.reason
            jobs[decision.job] = _carry_out(planner, jobs[decision.job], decision, snapshot.now)
    return Rest(False, MOST_ROUNDS, jobs, why, planner, snapshot.now)


def _carry_out(planner: Planner, job: Job, decision: Decision, now: float) -> Job:
    after = carried_out(job, decision, now)
    planner.apply(JobChanged(after))
    return after


def as_json(rest: Rest, file: str) -> dict[str, object]:
    """What `springtide plan` prints for one file."""
    standing = rest.planner.standing()
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
                "reason": reasons.render(_reason(rest, job)),
            }
            for job in rest.jobs.values()
        },
    }


def _reason(rest: Rest, job: Job) -> Reason:
    if job.phase is Phase.RUNNING and job.id in rest.why:
        return rest.why[job.id]
    return rest.planner.reason(job.id, rest.now)
