"""What was meant to happen against what the executor knows; pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from springtide.scheduler.engine.acts import never_started
from springtide.scheduler.engine.lifecycle import Act, Do
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, Exit, ExitKind
from springtide.scheduler.store.records import Asked, AttemptRecord, JobRecord


def settle_intents(
    jobs: Iterable[JobRecord], statuses: Iterable[AttemptStatus], now: float
) -> tuple[list[AttemptStatus], list[Do]]:
    """After a start: news for the first tick, and acts to repeat.

    An attempt whose start was decided but that nobody has seen is launched now; one that was seen and is not
    known any more is lost; one that was asked to stop is asked again. The executor's own news are all kept.
    """
    told = {status.key: status for status in statuses}
    news = list(told.values())
    acts: list[Do] = []
    for job in jobs:
        attempt = job.live
        if attempt is None:
            continue
        status = told.get(AttemptKey(job.id, attempt.number))
        if status is None:
            _unknown(attempt, now, news, acts)
        elif status.phase is not AttemptPhase.GONE and attempt.asked is not None:
            again = Act.KILL if attempt.asked is Asked.KILL else Act.PAUSE
            acts.append(Do(again, attempt.job, attempt.number))
    return news, acts


def _unknown(attempt: AttemptRecord, now: float, news: list[AttemptStatus], acts: list[Do]) -> None:
    key = AttemptKey(attempt.job, attempt.number)
    if attempt.seen:
        lost = Exit(ExitKind.LOST, now, detail="Nothing of it was found after a restart.")
        news.append(AttemptStatus(key, AttemptPhase.GONE, exit=lost))
    elif attempt.asked is None:
        acts.append(Do(Act.LAUNCH, attempt.job, attempt.number))
    else:
        news.append(never_started(key, now, "It was stopped before it could be started."))


class Stray(StrEnum):
    """What an attempt that is not the live one of its job can be."""

    GONE = "gone"
    """It has ended: nothing is left but to say that this is known."""
    SUPERSEDED = "its end is on record"
    """It belongs to a job of ours, which has gone on without it: it has to end."""
    UNKNOWN = "no record knows it"
    """It is left alone, and so are its GPUs."""


def stray(status: AttemptStatus, job: JobRecord | None) -> Stray:
    """What to make of an attempt that is not the live one of ``job``, its job if that is known."""
    if status.phase is AttemptPhase.GONE:
        return Stray.GONE
    if job is not None and status.key.attempt <= job.standing.attempt:
        return Stray.SUPERSEDED
    return Stray.UNKNOWN
