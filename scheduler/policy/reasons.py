"""The reasons of decisions: a code with the parameters of its sentences.

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

MAX_SPARED = 2
"""Maximum number of jobs named that their minimum run times spared."""


def label(job: Job) -> str:
    """Return the job's name for people."""
    return job.name or job.id


def of(code: str, job: Job, **more: Param) -> Reason:
    """Return the reason with this code for a decision about the job."""
    return Reason(code, {"job": job.id, "name": label(job), "project": job.project, **more})


def of_type(state: ClusterState) -> dict[str, Param]:
    """Return the GPU type of a reason's numbers as a parameter; empty if the pool has one type."""
    return {"of_type": state.gpu_type} if len(state.types) > 1 else {}


def quota_of(project: ProjectNode) -> int | None:
    """Return the quota of a project, None if it is unlimited."""
    return None if project.quota == UNLIMITED else project.quota


def started(job: Job, leaf: ProjectNode, workers: int) -> Reason:
    """Return why the job starts with these workers on free GPUs, already claimed: within quota, or borrowed."""
    gpus = job.gpus * workers
    code = STARTED[leaf.claimed > leaf.quota]
    return of(code, job, gpus=gpus, quota=quota_of(leaf), held=leaf.claimed - gpus)


def of_reservation(code: str, job: Job) -> Reason:
    """Return a reason about the GPUs reserved for the job, with their nodes."""
    nodes = tuple(sorted({worker.node for worker in job.reserved}))
    return of(code, job, gpus=len(job.reserved) * job.gpus, nodes=nodes)


def gets_workers(code: str, job: Job, placed: Placement) -> Reason:
    """Return why a running job gets workers: more of them, or replacements of lost ones."""
    return of(code, job, workers=len(placed), before=len(job.placement))


def of_beneficiary(job: Job) -> dict[str, Param]:
    """Return the parameters that name the job for which another one makes room or ends."""
    return {"for_job": job.id, "for_name": label(job), "for_project": job.project, "for_user": job.user}


def of_holders(holders: Sequence[Job]) -> dict[str, Param]:
    """Return the parameters that name the holders of GPUs and their projects."""
    return {
        "jobs": tuple(job.id for job in holders),
        "names": tuple(label(job) for job in holders),
        "projects": tuple(sorted({job.project for job in holders})),
    }


def of_spared(spared: Sequence[Job]) -> dict[str, Param]:
    """Return the parameters that name jobs spared by their minimum run times, the latest starts first."""
    latest = sorted(spared, key=lambda job: (-(job.started or 0.0), job.id))
    return of_holders(latest[:MAX_SPARED]) if latest else {}


def above_limit(
    state: ClusterState, victim: Job, project: ProjectNode, *, held: int, keeps: int, spared: Sequence[Job]
) -> Reason:
    """Return the reason for a pause by a lowered limit of the job's project or an ancestor."""
    about: dict[str, Param] = {"at": project.name, "limit": project.limit, "held": held, "keeps": keeps}
    return of("limit-lowered", victim, **about, **of_type(state), **of_spared(spared))


def made_way(
    victim: Job,
    theirs: ProjectNode,
    job: Job,
    mine: ProjectNode,
    *,
    kind: str,
    keeps: int,
    spared: Sequence[Job],
) -> Reason:
    """Return why the job pauses, or gives up some workers, for another, and not those that were ``spared``."""
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
        **of_spared(spared),
    )
