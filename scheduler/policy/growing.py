"""Elastic jobs that run with fewer workers than they want: when they may get more, and what one more asks for."""

from __future__ import annotations

from dataclasses import replace

from springtide.scheduler.model import Job, Phase, Placement
from springtide.scheduler.policy import placement
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.promising import outranked


def may_grow(desk: Desk, job: Job) -> bool:
    """Whether a running job may be restarted with more workers; those it has have to be able to go on.

    Not while a more urgent job of its project waits: that would take the GPUs away again.
    """
    return (
        not outranked(desk.state, job)
        and job.id not in desk.fixed
        and job.id not in desk.shrunk
        and desk.state.pool.keepable(job.placement)
        and desk.settled(job)
    )


def one_more(desk: Desk, job: Job, held: Placement) -> tuple[Job, int]:
    """A job that asks for what one more worker needs beside ``held``, and the nodes where that may be."""
    node = desk.state.pool.by_name[held[0].node].node
    asks = replace(
        job,
        workers=1,
        min_workers=1,
        gpu_types=(node.gpu_type,),
        require=None,
        prefer=None,
        phase=Phase.WAITING,
        placement=(),
    )
    return asks, placement.near(desk.state.pool, job, held)
