"""The state of a job after a decision that takes effect at once."""

from __future__ import annotations

from msgspec.structs import replace

from springtide.scheduler.model import Decision, Drop, Job, Move, Pause, Phase, Reserve, Start


def carried_out(job: Job, decision: Decision, now: float) -> Job:
    """Return the job after a decision about it: from ``now`` on a started job runs and a paused one waits."""
    match decision:
        case Start(placement=placement, turn=turn):
            return replace(
                job,
                phase=Phase.RUNNING,
                placement=placement,
                reserved=(),
                started=now,
                saved=None,
                attempts=job.attempts + 1,
                turn=turn,
                last_turn=now if turn else job.last_turn,
            )
        case Pause():
            return paused(job, now)
        case Move(placement=placement):
            return replace(paused(job, now), reserved=placement)
        case Reserve(placement=placement, turn=turn):
            return replace(job, reserved=placement, turn=turn)
        case Drop():
            return replace(job, reserved=(), turn=False)


def paused(job: Job, now: float) -> Job:
    """Return the job waiting again, with its GPUs free and its service counted."""
    served = job.served_by(now)
    return replace(job, phase=Phase.WAITING, placement=(), started=None, saved=None, served=served, turn=False)
