"""The states of jobs and attempts in words; pure.

A job that is ending for good holds its GPUs as a pausing one does, and so has its state; people read another word.
"""

from __future__ import annotations

from springtide.scheduler.model import JobState
from springtide.scheduler.store.records import Asked, AttemptRecord, JobRecord
from springtide.scheduler.wording import trials_failed


def shown_state(job: JobRecord) -> str:
    """Return the state of a job in words, such as ``cancelling`` or ``succeeded, 2 of 12 trials failed``."""
    sweep = job.standing.sweep
    if sweep is not None and sweep.failed and job.state is JobState.SUCCEEDED:
        return f"{job.state}, {trials_failed(sweep.failed, sweep.number)}"
    return job.standing.shown


def shown_attempt(attempt: AttemptRecord, job: JobRecord) -> str:
    """Return the state of one of a job's attempts in words."""
    ends = attempt.state.live and attempt.asked not in (None, Asked.PAUSE)
    return shown_state(job) if ends else attempt.state.value
