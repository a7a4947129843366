"""Demand: the number of workers with which a job could run on the pool as it is, and the cause if it never can.

The pool as it is: the GPUs of the available nodes that nothing outside the pool uses, whichever jobs hold them,
and the present limits and quotas. A lost, drained or missing node does not count until it is back; a job that
needs it has no demand meanwhile, and counts in no share, queue or order.

`most_workers` is the demand; `impossible` returns the cause, and None if and only if the job could run: if
`most_workers` is at least its ``min_workers``. Both look at the GPUs of one type. On a pool with several types a
job is impossible if it is impossible on each type that it accepts (`Planner` leaves out the others). The demand of
running jobs is their usage.
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
    """No node has GPUs of an accepted type; ``most`` is 0."""
    RDMA = "rdma"
    """It asks for network cards with RDMA that no node has; ``most`` is 0."""
    PER_GPU = "per-gpu"
    """The GPUs of no node come with as many cores and as much memory as it asks for; ``most`` is 0."""
    WORKER = "worker"
    """One worker needs more GPUs than any suitable node has: ``most`` GPUs."""
    GANG = "gang"
    """The suitable nodes hold fewer workers than it needs: ``most`` workers."""
    LEVEL = "level"
    """No suitable node has a label of the required topology level, ``at``; ``most`` is 0."""
    DOMAIN = "domain"
    """No domain of the required topology level, ``at``, holds all its workers: ``most`` workers."""


class Impossible(NamedTuple):
    """The bound that a job exceeds: ``at`` names the project or the topology level, ``most`` is the bound."""

    cause: Cause
    at: str
    most: int


def most_workers(pool: NodePool, leaf: ProjectNode, job: Job) -> int:
    """Return with how many workers the job could run if nothing else did, at most the requested number."""
    gpus = leaf.most if job.preemptible else leaf.most_guaranteed
    return min(job.workers, gpus // job.gpus, _room(pool, job))


def could_run(pool: NodePool, leaf: ProjectNode, job: Job) -> bool:
    """Return whether the job could run if nothing else did."""
    return most_workers(pool, leaf, job) >= job.min_workers


def impossible(pool: NodePool, leaf: ProjectNode, job: Job) -> Impossible | None:
    """Return why the job can never run, by the first cause in the order of `Cause`; None if it could."""
    if could_run(pool, leaf, job):
        return None
    need = job.need
    for project in leaf.path:
        if need > project.limit:
            return Impossible(Cause.LIMIT, project.name, project.limit)
    for project in leaf.path if not job.preemptible else ():
        if need > project.quota:
            return Impossible(Cause.QUOTA, project.name, project.quota)
    return _lacks_nodes(pool, job)


def _lacks_nodes(pool: NodePool, job: Job) -> Impossible:
    """Return what the nodes lack for the job."""
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


def _room(pool: NodePool, job: Job) -> int:
    """Return how many workers of the job the empty nodes hold, within one domain of its required level."""
    if not pool.suitable(job.gpu_types, job.per_gpu, job.avoid):
        return 0
    return pool.capacity(job.gpus, job.per_gpu, job.require, job.avoid)
