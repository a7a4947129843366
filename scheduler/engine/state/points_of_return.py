"""What a job returns to after an attempt: a checkpoint, or the beginning; pure."""

from __future__ import annotations

from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state.lifecycle import RUN_AGAIN
from springtide.scheduler.model import Reason
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord

INTERRUPTED = frozenset({AttemptState.PAUSED, AttemptState.LOST})
"""Ends of attempts after which a job runs again by itself, without a fault of its own."""


def loses_all(job: JobRecord, ended: AttemptRecord) -> bool:
    """Return whether nothing is left of an ended attempt: no checkpoint of the job was known when it ended.

    A program that ends with the exit code for "saved, run me again" is believed, unless its checkpoints were
    deleted since.
    """
    if ended is job.last_run:
        saved, deleted = job.standing.saved is not None, job.checkpoints_deleted
    else:
        following = next(each for each in job.attempts if each.number > ended.number)
        saved = following.had_checkpoint or following.resumed_from is not None
        deleted = ended.saved is not None and not saved
    return not saved and (deleted or ended.exit_code != RUN_AGAIN)


def left_behind(job: JobRecord, ended: AttemptRecord) -> list[Reason]:
    """Return with what a job starts again after an interruption, if that is not its checkpoint as ever."""
    if ended.state not in INTERRUPTED or ended.started is None or ended.ended is None:
        return []
    lost = loses_all(job, ended)
    return [
        *([messages.ended_cleanly(saved=not lost)] if ended.ended_cleanly else []),
        *([messages.never_saved(max(0.0, ended.ended - ended.started))] if lost else []),
    ]


def starts_over(job: JobRecord, attempt: AttemptRecord | None = None) -> bool:
    """Return whether an attempt is again from the beginning: the job ran before, and lost all of that.

    Without an ``attempt`` it is about the next one.
    """
    before = [each for each in job.attempts if attempt is None or each.number < attempt.number]
    ran = next((each for each in reversed(before) if each.started is not None), None)
    return ran is not None and not ran.state.live and loses_all(job, ran)
