"""Which trials of a sweep are begun next, how its trials are counted, and when it has ended; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from msgspec import structs

from springtide.scheduler.arguments import with_value
from springtide.scheduler.engine import messages
from springtide.scheduler.model import FINAL, JobState, Reason
from springtide.scheduler.population import Member, MemberRef, first_generation, next_generation
from springtide.scheduler.store.records import (
    Asked,
    BestTrial,
    Copied,
    Generation,
    JobRecord,
    JobSpec,
    Outcome,
    Parameters,
    SweepStanding,
    TrialRef,
    TrialsSpec,
)
from springtide.scheduler.wire import MAX_NAME

FAILURES_TO_PAUSE = 10
"""Number of trials in a row that failed after which a sweep pauses itself."""
COUNTED = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}


def first_standing(spec: TrialsSpec) -> SweepStanding:
    """Return the standing of a new sweep."""
    population = spec.population
    first = None if population is None else Generation(number=1, members=first_generation(population))
    return SweepStanding(number=spec.number, at_most=spec.at_most, at_least=spec.at_least, generation=first)


def next_trials(standing: SweepStanding, unfinished: Sequence[JobRecord], room: int) -> tuple[int, ...]:
    """Return the numbers of the trials to begin now.

    At most ``at_most`` trials are unfinished and ``at_least`` of them wait in line. ``room`` is the number of jobs
    that the limits of the pool still allow; a sweep without an unfinished trial begins one regardless of it, so
    that it never stops for ever. A population begins those of its present generation.
    """
    most = len(standing.again) + open_trials(standing) - standing.begun
    if standing.at_most is not None:
        most = min(most, standing.at_most - len(unfinished))
    in_line = sum(map(waits_in_line, unfinished))
    number = min(most, standing.at_least - in_line, max(room, 0 if unfinished else 1))
    if number <= 0:
        return ()
    again = standing.again[:number]
    return (*again, *range(standing.begun, standing.begun + number - len(again)))


def open_trials(standing: SweepStanding) -> int:
    """Return the number of trials that may begin: all, in a population those up to its present generation."""
    generation = standing.generation
    if generation is None:
        return standing.number
    return min(standing.number, generation.number * len(generation.members))


def begun(standing: SweepStanding, numbers: Sequence[int]) -> SweepStanding:
    """Return the standing after these trials have begun."""
    again = standing.again[len([number for number in numbers if number < standing.begun]) :]
    return replace(standing, again=again, begun=max(standing.begun, *(number + 1 for number in numbers)))


def waits_in_line(trial: JobRecord) -> bool:
    """Return whether a trial waits for GPUs, or will as soon as its attempt has ended."""
    if trial.awaits_person or trial.standing.stopping:
        return False
    live = trial.live
    return not trial.state.final if live is None else live.asked is Asked.PAUSE


def make_trial(sweep: JobRecord, number: int, run: int, parameters: Parameters | None, now: float) -> JobSpec:
    """Return the spec of a trial's job; ``run`` counts the jobs of the trial from 1."""
    spec, trials = sweep.spec, sweep.spec.trials
    assert trials is not None
    member = None if sweep.standing.sweep is None else member_of(trials, sweep.standing.sweep, number)
    argv: Sequence[str] = spec.argv
    if member is not None:
        parameters = member.parameters
        for name, value in parameters.items():
            argv = with_value(argv, name, value)
    return structs.replace(
        spec,
        argv=tuple(argv),
        id=trial_id(sweep.id, number, run),
        submitted=now,
        name=trial_name(spec.name, number),
        source="",
        environment=None,
        key=None,
        trials=None,
        trial=TrialRef(
            sweep=sweep.id,
            number=number,
            run=run,
            metric=trials.metric,
            parameters=parameters,
            history=trials.history,
            member=None if member is None else _reference(trials, number, member),
        ),
    )


def member_of(trials: TrialsSpec, standing: SweepStanding, number: int) -> Member | None:
    """Return the member that a trial of the present generation trains, None in any other sweep."""
    if trials.population is None or standing.generation is None:
        return None
    return standing.generation.members[trials.population.member_of(number)]


def _reference(trials: TrialsSpec, number: int, member: Member) -> MemberRef:
    population = trials.population
    assert population is not None
    generation = population.generation_of(number)
    first = (generation - 2) * population.members
    return MemberRef(
        member=population.member_of(number),
        generation=generation,
        generations=population.generations,
        until=population.until(generation),
        parent=None if member.source is None else first + member.source,
        copied_from=None if member.source == population.member_of(number) else member.source,
    )


def beginning(sweep: JobRecord, number: int) -> Mapping[str, Any]:
    """Return the changes of a trial's first standing by the checkpoint that it begins with."""
    trials, standing = sweep.spec.trials, sweep.standing.sweep
    generation = None if standing is None else standing.generation
    if trials is None or trials.population is None or generation is None or not generation.copied:
        return {}
    copied = generation.copied[trials.population.member_of(number)]
    return {"saved": copied.written, "saved_step": copied.step, "best_step": copied.step}


def trial_name(sweep: str, number: int) -> str:
    """Return the name of a trial's job, by the name of its sweep."""
    suffix = f" #{number}"
    return sweep[: MAX_NAME - len(suffix)] + suffix


def trial_id(sweep: str, number: int, run: int) -> str:
    """Return the id of a trial's job. It follows from sweep, trial and run, so that none is created twice."""
    return f"{sweep}t{number}" if run == 1 else f"{sweep}t{number}r{run}"


def outcome_of(trial: JobRecord) -> Outcome:
    """Return the outcome of a trial.

    Its own report; else the parameters known beforehand, and the last reported value of the metric, if that is
    finite. An ended trial of a population has the value that it reported at the end of its generation, or none.
    """
    outcome, of = trial.standing.outcome or Outcome(), trial.spec.trial
    if of is None:
        return outcome
    parameters = of.parameters if outcome.parameters is None else outcome.parameters
    value = outcome.value
    if value is None and (of.member is None or not trial.state.final):
        value = trial.standing.values.get(of.metric)
    return replace(outcome, parameters=parameters, value=value if value is not None and isfinite(value) else None)


# ---------- generations of a population


def awaits_generation(sweep: JobRecord) -> bool:
    """Return whether all trials of a population's generation have ended, and another one is to follow."""
    standing = sweep.standing.sweep
    if standing is None or standing.generation is None or standing.generation.lost or not is_open(sweep):
        return False
    return standing.begun == open_trials(standing) < standing.number and not standing.unfinished


def is_to_begin(sweep: JobRecord, job_id: str) -> bool:
    """Return whether a job is that of a trial of the present generation that has not begun yet."""
    standing = sweep.standing.sweep
    if standing is None or standing.generation is None or sweep.state.final or sweep.standing.stopping:
        return False
    return job_id in {trial_id(sweep.id, number, 1) for number in range(standing.begun, open_trials(standing))}


def is_continued(sweep: JobRecord, trial: JobRecord) -> bool:
    """Return whether a population may still continue from the checkpoint with which a trial ended."""
    standing, of = sweep.standing.sweep, trial.spec.trial
    if standing is None or standing.generation is None or standing.generation.lost or of is None:
        return False
    if sweep.state in FINAL or sweep.standing.stopping or of.member is None:
        return False
    present = of.member.generation == standing.generation.number < of.member.generations
    return present and trial.state is JobState.SUCCEEDED and outcome_of(trial).value is not None


def decide(sweep: JobRecord, ended: Sequence[JobRecord], gone: Collection[int] = ()) -> tuple[Member, ...]:
    """Return the members of the next generation, by the ended trials of the present one, in their order.

    It is empty if no trial reached a value. A trial that did not succeed has none, nor has one of the ``gone``
    members, whose checkpoints are not there any more.
    """
    trials, standing = sweep.spec.trials, sweep.standing.sweep
    assert trials is not None
    assert trials.population is not None
    assert standing is not None
    assert standing.generation is not None
    values = [
        outcome_of(trial).value if trial.state is JobState.SUCCEEDED and member not in gone else None
        for member, trial in enumerate(ended)
    ]
    present = standing.generation
    parameters = [member.parameters for member in present.members]
    return next_generation(trials.population, present.number + 1, parameters, values, trials.goal)


def with_generation(
    standing: SweepStanding, members: tuple[Member, ...], copied: tuple[Copied, ...], gone: int = 0
) -> SweepStanding:
    """Return the standing with the next generation; without members the population is lost.

    ``gone`` is the number of members whose checkpoints are not there any more.
    """
    present = standing.generation
    assert present is not None
    if not members:
        return replace(standing, generation=replace(present, lost=True, gone=gone))
    kept = None if standing.best is None else standing.best.job
    following = Generation(number=present.number + 1, members=members, copied=copied, kept=kept)
    return replace(standing, generation=following)


# ---------- counting


def count_ended(standing: SweepStanding, trials: Iterable[JobRecord], goal: str) -> SweepStanding:
    """Return the standing after these trials have ended."""
    for trial in trials:
        outcome = outcome_of(trial)
        kind = COUNTED[trial.state]
        if trial.state is JobState.SUCCEEDED and outcome.pruned:
            kind = "pruned"
        failed = trial.state is JobState.FAILED
        standing = replace(
            standing,
            served=standing.served + trial.standing.served,
            failed_in_row=standing.failed_in_row + 1 if failed else 0,
            best=_best(standing.best, trial, outcome, goal) if kind == "succeeded" else standing.best,
            **{kind: getattr(standing, kind) + 1},
        )
    return standing


def _best(best: BestTrial | None, trial: JobRecord, outcome: Outcome, goal: str) -> BestTrial | None:
    if not goal or outcome.value is None or trial.spec.trial is None:
        return best
    found = BestTrial(
        number=trial.spec.trial.number, job=trial.id, value=outcome.value, parameters=outcome.parameters
    )
    return found if best is None else min(best, found, key=lambda each: _rank(each, goal))


def _rank(trial: BestTrial, goal: str) -> tuple[float, int]:
    return (-trial.value if goal == "maximize" else trial.value, trial.number)


def count_unfinished(standing: SweepStanding, unfinished: Iterable[JobRecord]) -> SweepStanding:
    """Return the standing with the present numbers of unfinished trials."""
    states = [trial.state for trial in unfinished]
    return replace(
        standing,
        waiting=states.count(JobState.QUEUED),
        running=sum(state.holds_gpus for state in states),
        paused=states.count(JobState.PAUSED),
    )


# ---------- the sweep as a job


def settle(sweep: JobRecord, unfinished: Sequence[JobRecord], ended: Iterable[JobRecord], now: float) -> JobRecord:
    """Return the sweep in the state that follows from its trials, and ended if they all are.

    ``ended`` are the trials that have just ended.
    """
    standing, own = sweep.standing.sweep, sweep.standing
    assert standing is not None
    standing = count_unfinished(standing, unfinished)
    starts = [trial.standing.started for trial in (*unfinished, *ended) if trial.standing.started is not None]
    started = own.started if own.started is not None else min(starts, default=None)
    sweep = _with(sweep, sweep=standing, started=started)
    if not unfinished and (end := _end_of(sweep, standing)) is not None:
        state, why = end
        return _with(sweep, state=state, reason=why, ended=now, held=False, stopping=None, served=standing.served)
    if standing.running:
        state = JobState.RUNNING
    elif awaits_generation(sweep):
        state = sweep.state
    else:
        state = JobState.PAUSED if own.held or standing.paused else JobState.QUEUED
    return _with(sweep, state=state)


def _end_of(sweep: JobRecord, standing: SweepStanding) -> tuple[JobState, Reason] | None:
    """Return how a sweep without unfinished trials has ended, None if trials are still to begin."""
    if sweep.standing.stopping:
        return JobState.CANCELLED, messages.cancelled_by(sweep.standing.by)
    generation = standing.generation
    if generation is not None and generation.lost:
        return JobState.FAILED, messages.population_lost(
            generation.number, len(generation.members), generation.gone
        )
    if standing.again or standing.begun < standing.number:
        return None
    good = standing.succeeded + standing.pruned
    why = messages.sweep_ended(standing.number, good, standing.failed, standing.cancelled)
    if good:
        return JobState.SUCCEEDED, why
    return (JobState.FAILED if standing.failed else JobState.CANCELLED), why


def fails_only(standing: SweepStanding) -> bool:
    """Return whether enough trials in a row have failed for a sweep to pause itself."""
    left = standing.again or standing.begun < standing.number
    return bool(left) and standing.failed_in_row >= FAILURES_TO_PAUSE


def _with(job: JobRecord, **changes: object) -> JobRecord:
    """Return the job with changed fields of its standing, itself if they are the same."""
    if all(getattr(job.standing, name) == value for name, value in changes.items()):
        return job
    return job.with_standing(**changes)


def is_open(sweep: JobRecord) -> bool:
    """Return whether trials of the sweep may begin."""
    return sweep.state not in FINAL and not sweep.awaits_person and not sweep.standing.stopping
