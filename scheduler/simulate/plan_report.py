"""The output of `springtide plan` for a scenario: its stable state, and why and until when each job waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from msgspec import to_builtins

from springtide.scheduler import sentences
from springtide.scheduler.model import Job, Phase, Reason, Snapshot, Standing
from springtide.scheduler.scenario import Scenario
from springtide.scheduler.sentences.waiting import Amounts
from springtide.scheduler.simulate.settle import Rest, opened, opening, settle
from springtide.scheduler.simulate.starts_if import EFFORT, Diagnosis, Origin


def planned(
    scenario: Scenario, file: str, effort: int = EFFORT, *, placements_only: bool = False
) -> dict[str, object]:
    """Return the output of `springtide plan` for one file; ``effort`` bounds the planning for ``starts_if``.

    With ``placements_only`` jobs have no reasons and no ``starts_if``, whose search takes most of the time.
    """
    start = opening(scenario)
    rest = settle(start)
    standing = rest.planner.standing()
    why = dict[str, dict[str, object]]() if placements_only else _why_all(start, rest, effort)
    return {
        "file": file,
        "stable": rest.stable,
        "rounds": rest.rounds,
        "projects": {name: _shown(own) for name, own in standing.items()},
        "jobs": {
            job.id: {
                "running": len(job.placement),
                "nodes": [worker.node for worker in job.placement],
                **why.get(job.id, {}),
            }
            for job in rest.jobs.values()
        },
    }


def _why_all(start: Snapshot, rest: Rest, effort: int) -> dict[str, dict[str, object]]:
    diagnosis, reasons = diagnosis_of(start, rest, effort), _reasons(rest)
    amounts = {project.name: (project.quota, project.limit) for project in start.projects}
    return {job.id: _why(rest, diagnosis, amounts, job, reasons[job.id]) for job in rest.jobs.values()}


def diagnosis_of(start: Snapshot, rest: Rest, effort: int = EFFORT) -> Diagnosis:
    """Return the diagnosis of a scenario: changes have to help it both as written and in its stable state."""
    at_rest = replace(start, jobs=tuple(rest.jobs.values()))
    decisions = sum(before is not after for before, after in zip(start.jobs, at_rest.jobs, strict=True))
    origins = [Origin(start, opened, decisions)]
    if rest.rounds:
        origins.append(Origin(opened(at_rest), opened))
    return Diagnosis(at_rest, rest.planner, origins, effort)


def _why(rest: Rest, diagnosis: Diagnosis, amounts: Amounts, job: Job, why: Reason) -> dict[str, object]:
    """Return the reason for a job's state, and the changes that let it start if it waits."""
    said = sentences.render(why)
    if job.phase is not Phase.WAITING:
        return {"reason": sentences.joined(said)}
    starts_if = diagnosis.starts_if(job.id)
    said += sentences.starts_if_sentences(starts_if, lambda job_id: (job_id, rest.jobs[job_id].project), amounts)
    answer = {"reason": sentences.joined(said), "starts_if": to_builtins(starts_if.alternatives)}
    return {**answer, "impossible": True} if starts_if.impossible else answer


def _shown(standing: Standing) -> dict[str, object]:
    """Return the numbers of a project, as tables on a pool with several GPU types."""
    fields = ("quota", "fair_share", "held", "request")
    if not standing.by_type:
        return {field: getattr(standing, field) for field in fields}
    return {field: {name: getattr(own, field) for name, own in standing.by_type.items()} for field in fields}


def _reasons(rest: Rest) -> dict[str, Reason]:
    """Return for each job why it waits, or how many GPUs it holds and borrows.

    Jobs fill the quota of their project in the order in which they started, jobs that are not preemptible first.
    """
    standing = rest.planner.standing()
    filled: Counter[tuple[str, str]] = Counter()
    found: dict[str, Reason] = {}
    for job in sorted(rest.jobs.values(), key=lambda job: (job.preemptible, job.started or 0.0, job.submitted)):
        why = rest.planner.reason(job.id, rest.now)
        gpu_type = rest.gpu_types[job.placement[0].node] if job.placement else ""
        quota = standing[job.project].by_type.get(gpu_type, standing[job.project]).quota
        if job.placement and quota is not None:
            filled[job.project, gpu_type] += job.held_gpus
            borrowed = min(job.held_gpus, max(0, filled[job.project, gpu_type] - quota))
            why = replace(why, params={**why.params, "borrowed": borrowed})
        found[job.id] = why
    return found
