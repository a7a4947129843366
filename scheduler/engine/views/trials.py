"""Views of sweeps and of their trials, built from records; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine.state.borrowing import Borrowing
from springtide.scheduler.engine.sweeps import controller
from springtide.scheduler.model import JobState
from springtide.scheduler.store.records import BestTrial, JobRecord


def counts(sweep: JobRecord, unfinished: Sequence[JobRecord], borrowing: Borrowing) -> wire.TrialCounts:
    """Return the trials of a sweep by state, of which these are unfinished."""
    standing, spec = sweep.standing.sweep, sweep.spec.trials
    assert standing is not None
    assert spec is not None
    left = standing.number - standing.ended - standing.unfinished
    cancelled = left if sweep.state.final else 0
    live = [trial for trial in unfinished if trial.live is not None]
    return wire.TrialCounts(
        number=standing.number,
        queued=standing.waiting + left - cancelled,
        running=standing.running,
        paused=standing.paused,
        succeeded=standing.succeeded,
        pruned=standing.pruned,
        failed=standing.failed,
        cancelled=standing.cancelled + cancelled,
        gpus=sum(trial.attempts[-1].gpus for trial in live),
        borrowed=sum(map(borrowing.of, live)),
        at_most=standing.at_most,
        at_least=standing.at_least,
        metric=spec.metric,
        goal=spec.goal,
        best=None if standing.best is None else _best(standing.best),
    )


def _best(best: BestTrial) -> wire.Best:
    return wire.Best(trial=best.number, job=best.job, value=best.value, parameters=_copied(best.parameters))


def _copied(parameters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if parameters is None else dict(parameters)


def outcome(trial: JobRecord) -> wire.Outcome:
    """Return what is known of a trial."""
    known = controller.outcome_of(trial)
    return wire.Outcome(
        parameters=_copied(known.parameters), value=known.value, curve=list(known.curve), pruned=known.pruned
    )


def served(job: JobRecord, now: float) -> float:
    """Return the GPU-seconds of all attempts of a job."""
    live = job.live
    running = 0.0 if live is None or live.started is None else max(0.0, now - live.started) * live.gpus
    return job.standing.served + running


def row(trial: JobRecord, borrowing: Borrowing, now: float) -> wire.TrialRow:
    """Return a trial that has begun, as a row of a table."""
    spec, standing, known = trial.spec.trial, trial.standing, controller.outcome_of(trial)
    assert spec is not None
    pruned = known.pruned and trial.state is JobState.SUCCEEDED
    return wire.TrialRow(
        trial=spec.number,
        job=trial.id,
        state="pruned" if pruned else trial.state.value,
        parameters=_copied(known.parameters),
        value=known.value,
        values=dict(standing.values),
        step=standing.step,
        of=standing.of,
        curve=list(known.curve),
        attempt=standing.attempt,
        started=standing.started,
        ended=standing.ended,
        gpu_seconds=served(trial, now),
        borrowed=borrowing.of(trial),
        error=standing.error,
    )
