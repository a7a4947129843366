"""What a project may hold at all, whoever else wants it."""

from __future__ import annotations

from springtide.scheduler.model import Job
from springtide.scheduler.policy.tree import Seat


def over_limit(leaf: Seat, need: int) -> Seat | None:
    """The lowest project whose limit would be exceeded by ``need`` more GPUs."""
    for seat in leaf.path:
        if seat.claimed + need > seat.limit:
            return seat
    return None


def held_within_limit(leaf: Seat, need: int) -> bool:
    """Whether ``need`` more GPUs are within all limits even while attempts that are stopping hold theirs."""
    return all(seat.held + need <= seat.limit for seat in leaf.path)


def within_quota(leaf: Seat, need: int) -> bool:
    """Whether ``need`` more GPUs are within the quotas of the project and of all above it."""
    return all(seat.claimed + need <= seat.quota for seat in leaf.path)


def within_entitlement(leaf: Seat, need: int) -> bool:
    """Whether ``need`` more GPUs are within what the project, and all above it, are entitled to."""
    return all(seat.claimed + need <= seat.entitled for seat in leaf.path)


def beyond_quota(leaf: Seat, job: Job, need: int) -> Seat | None:
    """The lowest project whose quota cannot hold a job that is not preemptible, beside the others like it."""
    if job.preemptible:
        return None
    for seat in leaf.path:
        if seat.firm + need > seat.quota:
            return seat
    return None


def refusal(leaf: Seat, job: Job, need: int) -> Seat | None:
    """The lowest project at which the job is refused."""
    return over_limit(leaf, need) or beyond_quota(leaf, job, need)
