"""Admission: the limits of a project and its ancestors, and the quota for jobs that are not preemptible."""

from __future__ import annotations

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.projects import ProjectNode


def over_limit(leaf: ProjectNode, need: int) -> ProjectNode | None:
    """The lowest project whose limit would be exceeded by ``need`` more GPUs."""
    return next((project for project in leaf.path if project.claimed + need > project.limit), None)


def held_within_limit(leaf: ProjectNode, need: int) -> bool:
    """Whether ``need`` more GPUs are within all limits even while attempts that are stopping hold theirs."""
    return all(project.held + need <= project.limit for project in leaf.path)


def may_start(leaf: ProjectNode, job: Job, need: int) -> bool:
    """Whether the job may hold ``need`` more GPUs at once, beside those of attempts that are stopping."""
    return refusal(leaf, job, need) is None and held_within_limit(leaf, need)


def within_entitlement(leaf: ProjectNode, need: int) -> bool:
    """Whether ``need`` more GPUs are within what the project, and all above it, are entitled to."""
    return all(project.claimed + need <= project.entitled for project in leaf.path)


def guaranteed(leaf: ProjectNode, need: int) -> bool:
    """Whether the quota of the project guarantees ``need`` more GPUs.

    Quotas of children that add up to more than their parent's guarantee no more than that. What siblings hold
    beyond their quotas does not count, as it can be reclaimed.
    """
    return leaf.claimed + need <= leaf.quota and all(
        project.claimed + need <= project.quota
        if project.oversubscribed
        else min(project.claimed + need, project.quota) <= project.entitled
        for project in leaf.path
    )


def beyond_quota(leaf: ProjectNode, job: Job, need: int) -> ProjectNode | None:
    """The lowest project whose quota cannot hold a job that is not preemptible, beside the others like it."""
    if job.preemptible:
        return None
    return next((project for project in leaf.path if project.non_preemptible + need > project.quota), None)


def refusal(leaf: ProjectNode, job: Job, need: int) -> ProjectNode | None:
    """The lowest project at which the job is refused."""
    return over_limit(leaf, need) or beyond_quota(leaf, job, need)
