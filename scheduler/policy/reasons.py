"""The reasons of decisions: a code with what fills its sentences.

`springtide.scheduler.sentences` has the sentences, `springtide.scheduler.policy.diagnosis` the reasons of waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler.model import Job, Placement, Reason
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.projects import UNLIMITED, ProjectNode

Param = str | int | float | tuple[str, ...] | None

STARTED = ("started", "started-borrowing")
"""Codes of a start on free GPUs: within the quota, and beyond it."""


def label(job: Job) -> str:
    """What people call the job."""
    return job.name or job.id


def of(code: str, job: Job, **more: Param) -> Reason:
    """Return the reason with this code for what becomes of a job."""
    return Reason(code, {"job": job.id, "name": label(job), "project": job.project, **more})


def of_type(state: ClusterState) -> dict[str, Param]:
    """Return the GPU type that a reason's numbers are about, as a parameter; none where the pool has one type."""
    return {"of_type": state.gpu_type} if len(state.types) > 1 else {}


def quota_of(project: ProjectNode) -> int | None:
    """Return the quota of a project, None if it is unlimited."""
    return None if project.quota == UNLIMITED else project.quota


def started(job: Job, leaf: ProjectNode, workers: int) -> Reason:
    """The job starts with these workers on free GPUs, which count as claimed: within quota, or borrowed."""
    gpus = job.gpus * workers
    code = STARTED[leaf.claimed > leaf.quota]
    return of(code, job, gpus=gpus, quota=quota_of(leaf), held=leaf.claimed - gpus)


def of_reservation(code: str, job: Job) -> Reason:
    """What becomes of GPUs that are reserved for the job, on these nodes."""
    nodes = tuple(sorted({worker.node for worker in job.reserved}))
    return of(code, job, gpus=len(job.reserved) * job.gpus, nodes=nodes)


def gets_workers(code: str, job: Job, placed: Placement) -> Reason:
    """A running job has other workers than before: more, or new ones for those that it lost."""
    return of(code, job, workers=len(placed), before=len(job.placement))


def of_beneficiary(job: Job) -> dict[str, Param]:
    """Return the parameters that name the job for which another one makes room or has to end."""
    return {"for_job": job.id, "for_name": label(job), "for_project": job.project, "for_user": job.user}


def of_holders(holders: Sequence[Job]) -> dict[str, Param]:
    """Return the parameters that name jobs that hold GPUs, and their projects."""
    return {
        "jobs": tuple(each.id for each in holders),
        "names": tuple(label(each) for each in holders),
        "projects": tuple(sorted({each.project for each in holders})),
    }


def above_limit(state: ClusterState, victim: Job, project: ProjectNode, *, held: int, keeps: int) -> Reason:
    """The limit of the job's project, or of one above it, was lowered below what it holds."""
    limit = project.limit
    return of("limit-lowered", victim, at=project.name, limit=limit, held=held, keeps=keeps, **of_type(state))


def made_way(victim: Job, theirs: ProjectNode, job: Job, mine: ProjectNode, *, kind: str, keeps: int) -> Reason:
    """The job is paused, or gives up workers and keeps some, for another."""
    gpus = job.need
    return of(
        kind,
        victim,
        **of_beneficiary(job),
        gpus=gpus,
        within=int(mine.claimed + gpus <= mine.quota),
        held=theirs.claimed,
        quota=quota_of(theirs),
        keeps=keeps,
    )
