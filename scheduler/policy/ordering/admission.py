"""Admission: the limits of a project and its ancestors, and the quota for jobs that are not preemptible."""

from __future__ import annotations

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.projects import ProjectNode


def over_limit(leaf: ProjectNode, need: int) -> ProjectNode | None:
    """Return the lowest project whose limit would be exceeded by ``need`` more GPUs."""
    return next((project for project in leaf.path if project.claimed + need > project.limit), None)


def held_within_limit(leaf: ProjectNode, need: int) -> bool:
    """Return whether ``need`` more GPUs are within all limits while stopping attempts still hold theirs."""
    return all(project.held + need <= project.limit for project in leaf.path)


def may_start(leaf: ProjectNode, job: Job, need: int) -> bool:
    """Return whether the job may hold ``need`` more GPUs at once, beside those of stopping attempts."""
    return refusal(leaf, job, need) is None and held_within_limit(leaf, need)


def within_entitlement(leaf: ProjectNode, need: int) -> bool:
    """Return whether ``need`` more GPUs are within the entitlements of the project and its ancestors."""
    return all(project.claimed + need <= project.entitled for project in leaf.path)


def guaranteed(leaf: ProjectNode, need: int) -> bool:
    """Return whether the quota of the project guarantees ``need`` more GPUs.

    Children's quotas that add up to more than their parent's guarantee no more than the parent's. GPUs that
    siblings hold beyond their quotas do not count, as they can be reclaimed.
    """
    return leaf.claimed + need <= leaf.quota and all(
        project.claimed + need <= project.quota
        if project.oversubscribed
        else min(project.claimed + need, project.quota) <= project.entitled
        for project in leaf.path
    )


def beyond_quota(leaf: ProjectNode, job: Job, need: int) -> ProjectNode | None:
    """Return the lowest project whose quota cannot hold a non-preemptible job beside its other ones."""
    if job.preemptible:
        return None
    return next((project for project in leaf.path if project.non_preemptible + need > project.quota), None)


def refusal(leaf: ProjectNode, job: Job, need: int) -> ProjectNode | None:
    """Return the lowest project that refuses the job."""
    return over_limit(leaf, need) or beyond_quota(leaf, job, need)
