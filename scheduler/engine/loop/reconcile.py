"""Comparison of the committed intents with what the executor reports; pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from springtide.scheduler.engine.loop.actuator import never_started
from springtide.scheduler.engine.state.lifecycle import Action, Effect
from springtide.scheduler.engine.state.places import is_unmatched
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, Exit, ExitKind
from springtide.scheduler.store.records import Asked, AttemptRecord, JobRecord


def settle_intents(
    jobs: Iterable[JobRecord], statuses: Iterable[AttemptStatus], now: float
) -> tuple[list[AttemptStatus], list[Effect]]:
    """Return the observations of the first tick after a start, and the effects to repeat.

    A live attempt that the executor does not know is launched if it was never seen and its GPUs have a place,
    and lost otherwise. An attempt that was asked to stop is asked again. ``statuses``, all that the executor
    knows, are among the observations.
    """
    known = {status.key: status for status in statuses}
    observations = list(known.values())
    effects: list[Effect] = []
    for job in jobs:
        attempt = job.live
        if attempt is None:
            continue
        status = known.get(AttemptKey(job.id, attempt.number))
        if status is None:
            _settle_unknown(attempt, now, observations, effects)
        elif status.phase is not AttemptPhase.GONE and attempt.asked is not None:
            action = Action.KILL if attempt.asked is Asked.KILL else Action.PAUSE
            effects.append(Effect(action, attempt.job, attempt.number))
    return observations, effects


def _settle_unknown(
    attempt: AttemptRecord, now: float, observations: list[AttemptStatus], effects: list[Effect]
) -> None:
    key = AttemptKey(attempt.job, attempt.number)
    if attempt.seen:
        lost = Exit(ExitKind.LOST, now, detail="Nothing of it was found after a restart.")
        observations.append(AttemptStatus(key, AttemptPhase.GONE, exit=lost))
    elif any(is_unmatched(worker.node) for worker in attempt.placement):
        detail = "Its GPUs had no place in the pool any more before it was started."
        observations.append(AttemptStatus(key, AttemptPhase.GONE, exit=Exit(ExitKind.LOST, now, detail=detail)))
    elif attempt.asked is None:
        effects.append(Effect(Action.LAUNCH, attempt.job, attempt.number))
    else:
        observations.append(never_started(key, now, "It was stopped before it could be started."))


class UnexpectedAttempt(StrEnum):
    """Kinds of attempts that are not the live one of their job."""

    GONE = "gone"
    """It has ended; only its end has to be acknowledged."""
    SUPERSEDED = "its end is on record"
    """It belongs to a known job that has gone on without it; it is killed."""
    UNKNOWN = "no record knows it"
    """It belongs to no known job; it is left alone, and its GPUs are not used."""


def classify_unexpected(status: AttemptStatus, job: JobRecord | None) -> UnexpectedAttempt:
    """Return the kind of an attempt that is not the live one of ``job``, which is None if no record has its id."""
    if status.phase is AttemptPhase.GONE:
        return UnexpectedAttempt.GONE
    if job is not None and status.key.attempt <= job.standing.attempt:
        return UnexpectedAttempt.SUPERSEDED
    return UnexpectedAttempt.UNKNOWN
