"""The pauses of a trial: how often, why, for how long, and at what cost; pure."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from springtide.scheduler import sentences, wire
from springtide.scheduler.engine.state.ledger import lost_work
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord


def pauses(trial: JobRecord) -> wire.TrialPauses | None:
    """Return the pauses of a trial, None if it had none. Their reasons name no jobs, so that all may read them."""
    paused = [each for each in trial.attempts if each.state is AttemptState.PAUSED]
    if not paused:
        return None
    ended, last = trial.standing.ended, trial.attempts[-1]
    present = last.ended if last in paused and ended is None else None
    ends = [*((one, _start(other)) for one, other in pairwise(trial.attempts)), (last, ended)]
    return wire.TrialPauses(
        times=len(paused),
        seconds=sum(_length(one.ended, end) for one, end in ends if one in paused),
        since=present,
        lost_gpu_seconds=sum(map(lost_work, paused)),
        why=dict(Counter(map(_why, paused)).most_common()),
    )


def _start(attempt: AttemptRecord) -> float:
    return attempt.created if attempt.started is None else attempt.started


def _length(start: float | None, end: float | None) -> float:
    return 0.0 if start is None or end is None else max(0.0, end - start)


def _why(attempt: AttemptRecord) -> str:
    """Return the reason of a pause in one line."""
    why = attempt.ended_why
    return (why and sentences.brief_headline(sentences.without_names(why, lambda _: False))) or "Paused."
