"""Demand: with how many workers a job could run on the pool as it is, and the cause where it can never run.

The pool as it is: the GPUs of the available nodes that nothing outside the pool uses, whichever jobs hold them,
and the present limits and quotas. So a node that is lost, drained or not there yet counts for nothing until it is
back; a job that needs it asks for nothing that the pool has, and counts in no share, line or order meanwhile.

`most_workers` is what counts as demand; `impossible` tells the cause, and None if and only if the job could run:
if `most_workers` is at least its ``min_workers``. Both look at the GPUs of one type. On a pool with several types
a job is impossible if it is on each that it accepts (`Planner` leaves out the types on which it cannot run). Jobs
that run are not asked: what they hold counts as it is.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from springtide.scheduler.model import WITHIN_NODES, Job
from springtide.scheduler.policy.state.nodes import NODE, NodePool
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu


class Cause(StrEnum):
    """Why a job can never run on the pool as it is."""

    LIMIT = "limit"
    """It needs more GPUs than the limit of the project ``at``: ``most`` GPUs."""
    QUOTA = "quota"
    """It is not preemptible, and needs more GPUs than the quota of the project ``at``: ``most`` GPUs."""
    NODES = "nodes"
    """No node has GPUs of a type that it accepts; ``most`` is 0."""
    RDMA = "rdma"
    """It asks for network cards with RDMA that no node has; ``most`` is 0."""
    PER_GPU = "per-gpu"
    """The GPUs of no node come with as many cores and as much memory as it asks for; ``most`` is 0."""
    WORKER = "worker"
    """One worker needs more GPUs than any node that suits it has: ``most`` GPUs."""
    GANG = "gang"
    """The nodes that suit it hold fewer workers than it needs: ``most`` workers."""
    LEVEL = "level"
    """No node that suits it has a label of the level that it requires, ``at``; ``most`` is 0."""
    DOMAIN = "domain"
    """No domain of the level that it requires, ``at``, holds all workers that it needs: ``most`` workers."""


class Impossible(NamedTuple):
    """What a job exceeds: ``at`` names the project or the topology level, ``most`` is the bound, by the cause."""

    cause: Cause
    at: str
    most: int


def most_workers(pool: NodePool, leaf: ProjectNode, job: Job) -> int:
    """Return with how many workers the job could run if nothing else did, at most those that it asks for."""
    gpus = min(_most_gpus(project, job) for project in leaf.path)
    return min(job.workers, gpus // job.gpus, _room(pool, job))


def could_run(pool: NodePool, leaf: ProjectNode, job: Job) -> bool:
    """Tell whether the job could run if nothing else did."""
    return most_workers(pool, leaf, job) >= job.min_workers


def impossible(pool: NodePool, leaf: ProjectNode, job: Job) -> Impossible | None:
    """Return why the job can never run; None if it could. Of several causes the first of `Cause` is returned."""
    if could_run(pool, leaf, job):
        return None
    need = job.need
    for project in leaf.path:
        if need > project.limit:
            return Impossible(Cause.LIMIT, project.name, project.limit)
    for project in leaf.path:
        if need > _most_gpus(project, job):
            return Impossible(Cause.QUOTA, project.name, project.quota)
    return _lacks_nodes(pool, job)


def _lacks_nodes(pool: NodePool, job: Job) -> Impossible:
    """Return what the nodes lack that the job needs."""
    if not pool.suitable(job.gpu_types, UNSPECIFIED):
        return Impossible(Cause.NODES, "", 0)
    if not pool.suitable(job.gpu_types, PerGpu(rdma=job.per_gpu.rdma)):
        return Impossible(Cause.RDMA, "", 0)
    if not pool.suitable(job.gpu_types, job.per_gpu):
        return Impossible(Cause.PER_GPU, "", 0)
    if job.gpus > (largest := max(pool.sizes(job.per_gpu))):
        return Impossible(Cause.WORKER, "", largest)
    if job.min_workers > (most := pool.capacity(job.gpus, job.per_gpu)):
        return Impossible(Cause.GANG, "", most)
    level = job.require or ""
    known = level in {NODE, *WITHIN_NODES} or pool.has_level(level, job.per_gpu)
    most = pool.capacity(job.gpus, job.per_gpu, level)
    return Impossible(Cause.DOMAIN if known else Cause.LEVEL, level, most)


def _most_gpus(project: ProjectNode, job: Job) -> int:
    """Return how many GPUs the project may give to one job: those of its quota, if they cannot be taken back."""
    return project.limit if job.preemptible else min(project.limit, project.quota)


def _room(pool: NodePool, job: Job) -> int:
    """Return how many workers of the job the empty nodes hold, in one domain of the level that it requires."""
    if not pool.suitable(job.gpu_types, job.per_gpu):
        return 0
    return pool.capacity(job.gpus, job.per_gpu, job.require)
