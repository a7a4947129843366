"""The reasons of decisions: a code with what fills its sentences.

`springtide.scheduler.sentences` has the sentences, `springtide.scheduler.policy.diagnosis` the reasons of waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from springtide.scheduler.model import Job, Placement, Reason
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.projects import UNLIMITED, ProjectNode

Param = str | int | float | tuple[str, ...] | None

STARTED = ("started", "started-borrowing")
"""Codes of a start on free GPUs: within the quota, and beyond it."""


def label(job: Job) -> str:
    """What people call the job."""
    return job.name or job.id


def _about(job: Job, **more: Param) -> dict[str, Param]:
    return {"job": job.id, "name": label(job), "project": job.project, **more}


def of_type(state: ClusterState) -> dict[str, Param]:
    """Return the GPU type that a reason's numbers are about, as a parameter; none where the pool has one type."""
    return {"of_type": state.gpu_type} if len(state.types) > 1 else {}


def quota_of(project: ProjectNode) -> int | None:
    """Return the quota of a project, None if it is unlimited."""
    return None if project.quota == UNLIMITED else project.quota


def started(job: Job, leaf: ProjectNode) -> Reason:
    """The job fits on free GPUs, within quota or borrowed."""
    need = job.gpus * job.min_workers
    code = STARTED[leaf.claimed + need > leaf.quota]
    return Reason(code, _about(job, gpus=need, quota=quota_of(leaf), held=leaf.claimed))


def with_workers(why: Reason, job: Job, workers: int) -> Reason:
    """Return the reason of a start that got more workers, in the same plan, than it was decided with."""
    held, quota = why.params.get("held"), why.params.get("quota")
    if why.code not in STARTED or not isinstance(held, int):
        return why
    gpus = job.gpus * workers
    within = not isinstance(quota, int) or held + gpus <= quota
    return replace(why, code=STARTED[not within], params={**why.params, "gpus": gpus})


def of_reservation(code: str, job: Job) -> Reason:
    """What becomes of GPUs that are reserved for the job; or which nodes they are on, one of which is lost."""
    if code == "reservation-lost":
        return Reason(code, _about(job, nodes=tuple(sorted({worker.node for worker in job.reserved}))))
    return Reason(code, _about(job, gpus=len(job.reserved) * job.gpus))


def lent(job: Job, promised: Job) -> Reason:
    """The job ends before another can start for which its GPUs are set aside."""
    gpus = job.gpus * job.min_workers
    return Reason("started-before", _about(job, gpus=gpus, for_job=promised.id, for_name=label(promised)))


def gets_workers(code: str, job: Job, placed: Placement) -> Reason:
    """A running job has other workers than before: more, or new ones for those that it lost."""
    return Reason(code, _about(job, workers=len(placed), before=len(job.placement)))


def broken(job: Job) -> Reason:
    """The gang has fewer workers than it needs."""
    return Reason("gang-broken", _about(job, workers=len(job.placement), min_workers=job.min_workers))


def makes_room(job: Job, beneficiary: Job) -> Reason:
    """The job is moved to other GPUs so that another fits."""
    for_job, for_name, for_project = beneficiary.id, label(beneficiary), beneficiary.project
    return Reason("moved", _about(job, for_job=for_job, for_name=for_name, for_project=for_project))


def set_aside(code: str, job: Job, holders: Sequence[Job]) -> Reason:
    """GPUs are set aside until those who hold them have stopped or ended."""
    return Reason(code, _about(job, gpus=job.gpus * job.min_workers, **of_holders(holders)))


def of_holders(holders: Sequence[Job]) -> dict[str, Param]:
    """Return the parameters that name jobs that hold GPUs, and their projects."""
    return {
        "jobs": tuple(each.id for each in holders),
        "names": tuple(label(each) for each in holders),
        "projects": tuple(sorted({each.project for each in holders})),
    }


def above_limit(state: ClusterState, victim: Job, project: ProjectNode, *, held: int, keeps: int) -> Reason:
    """The limit of the job's project, or of one above it, was lowered below what it holds."""
    about = _about(victim, at=project.name, limit=project.limit, held=held, keeps=keeps, **of_type(state))
    return Reason("limit-lowered", about)


def made_way(victim: Job, theirs: ProjectNode, job: Job, mine: ProjectNode, *, kind: str, keeps: int) -> Reason:
    """The job is paused, or gives up workers and keeps some, for another."""
    gpus = job.gpus * job.min_workers
    about = _about(
        victim,
        for_job=job.id,
        for_name=label(job),
        for_project=job.project,
        for_user=job.user,
        gpus=gpus,
        within=int(mine.claimed + gpus <= mine.quota),
        held=theirs.claimed,
        quota=quota_of(theirs),
        keeps=keeps,
    )
    return Reason(kind, about)
