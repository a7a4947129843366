"""Recorded jobs of a span, to be counted as simulated ones are; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from springtide.scheduler.engine import messages
from springtide.scheduler.engine.past.period import Period
from springtide.scheduler.engine.state.ledger import lost_work
from springtide.scheduler.model import JobState
from springtide.scheduler.simulate.what_if import RecordedJob
from springtide.scheduler.store.ledger import PAUSED, LedgerEntry
from springtide.scheduler.store.queries.past import Past
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord


def recorded_jobs(past: Past, period: Period) -> list[RecordedJob]:
    """Return what the jobs of a past did within a period."""
    by_job: dict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in past.forgotten:
        by_job[entry.job].append(entry)
    jobs = (_recorded(job, period) for job in past.jobs if job.rules.runs)
    return [*jobs, *(_forgotten(own, period) for own in by_job.values())]


def _recorded(job: JobRecord, period: Period) -> RecordedJob:
    standing = job.standing
    paused = [each for each in job.attempts if each.state is AttemptState.PAUSED and _within(each.ended, period)]
    failed_to_start = job.state is JobState.FAILED and standing.started is None
    timed_out = standing.reason is not None and standing.reason.code in messages.TIME_IS_UP
    stopped = job.state is JobState.CANCELLED or failed_to_start or timed_out
    finish = _time(standing.ended, period)
    return RecordedJob(
        project=job.spec.project,
        submitted=job.spec.submitted - period.origin,
        first_start=_time(standing.started, period),
        finish=finish,
        stopped=stopped and finish is not None,
        pauses=len(paused),
        lost=sum(map(lost_work, paused))
        + sum(_restart(each) for each in job.attempts if _within(each.started, period)),
        spans=[
            (each.created - period.origin, _end(each, period) - period.origin, each.gpus, each.gpu_type)
            for each in job.attempts
        ],
    )


def _forgotten(entries: Sequence[LedgerEntry], period: Period) -> RecordedJob:
    begun = min(entry.start for entry in entries)
    paused = [entry for entry in entries if entry.ended == PAUSED and _within(entry.end, period)]
    last = max(entries, key=lambda entry: entry.end)
    finish = _time(last.end, period)
    return RecordedJob(
        project=last.project,
        submitted=begun - (entries[0].wait or 0.0) - period.origin,
        first_start=_time(begun, period),
        finish=finish,
        stopped=last.ended == AttemptState.CANCELLED and finish is not None,
        pauses=len(paused),
        lost=sum(entry.lost for entry in paused),
        spans=[
            (each.start - period.origin, each.end - period.origin, each.gpus, each.gpu_type) for each in entries
        ],
    )


def _time(at: float | None, period: Period) -> float | None:
    """Return a moment as a time of the scenario, None if it comes after the period."""
    return None if at is None or at > period.end else at - period.origin


def _within(at: float | None, period: Period) -> bool:
    return at is not None and period.start < at <= period.end


def _restart(attempt: AttemptRecord) -> float:
    """Return the GPU-seconds from the start of an attempt that resumed until its program ran."""
    if attempt.number == 1 or attempt.started is None:
        return 0.0
    return max(0.0, attempt.started - attempt.created) * attempt.gpus


def _end(attempt: AttemptRecord, period: Period) -> float:
    return period.end if attempt.ended is None else attempt.ended
