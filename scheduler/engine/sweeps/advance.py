"""Sweeps follow their trials, within the transaction that changes these."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from springtide.scheduler.arguments import Parameter
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.sweeps import controller
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.workload import Workload

SERVICE_GRAIN = 600.0
"""GPU-seconds by which a sweep's service has to grow before a waiting trial is counted anew."""


def advance(transaction: Transaction, settings: EngineSettings, sweeps: Iterable[str] = ()) -> int:
    """Count the ends of trials, begin the next ones, and end sweeps whose trials have all ended.

    Looks only at sweeps of which something has changed in the transaction, and at those named; doing it again
    changes nothing. Returns the number of trials that were begun.
    """
    ended: dict[str, list[JobRecord]] = {sweep: [] for sweep in sweeps}
    for job in transaction.jobs.values():
        if job.workload is Workload.SWEEP:
            ended.setdefault(job.id, [])
        elif job.sweep is not None:
            ends = ended.setdefault(job.sweep, [])
            if job.state.final and job.id not in transaction.counted_trials:
                transaction.counted_trials.add(job.id)
                ends.append(job)
    before = len(transaction.new_jobs)
    for sweep_id, trials in ended.items():
        sweep = transaction.job(sweep_id)
        if sweep is not None and not sweep.state.final:
            _advance(transaction, settings, sweep, trials)
    return len(transaction.new_jobs) - before


def _advance(transaction: Transaction, settings: EngineSettings, sweep: JobRecord, ended: list[JobRecord]) -> None:
    standing, spec = sweep.standing.sweep, sweep.spec.trials
    assert standing is not None
    assert spec is not None
    now = transaction.now
    after = controller.count_ended(standing, ended, spec.goal)
    changed = sweep if after is standing else sweep.with_standing(sweep=after)
    if ended and controller.is_open(changed) and controller.fails_only(after):
        changed = _pause_itself(transaction, changed, after.failed_in_row)
    if controller.is_open(changed):
        unfinished = transaction.trials_of(sweep.id)
        numbers = controller.next_trials(after, unfinished, _room(transaction, sweep, settings))
        if numbers:
            known = transaction.parameters_of(sweep.id)
            for number in numbers:
                run = after.retries + 1 if number < after.begun else 1
                parameters = (
                    None if known is None else msgspec.json.decode(known[number], type=dict[str, Parameter])
                )
                made = controller.make_trial(changed, number, run, parameters, now)
                trial = JobRecord(replace(made, seq=transaction.next_job_number()))
                transaction.add_job(trial.with_standing(**controller.beginning(changed, number)), None)
            changed = changed.with_standing(sweep=controller.begun(after, numbers))
        _share_service(transaction, sweep.id, after.served)
    changed = controller.settle(changed, transaction.trials_of(sweep.id), ended, now)
    if changed is not sweep:
        transaction.put_job(changed)


def _room(transaction: Transaction, sweep: JobRecord, settings: EngineSettings) -> int:
    """Return the number of jobs that the limits still allow the sweep's user and the pool."""
    mine = settings.queue_cap_per_user - transaction.count_unfinished(sweep.spec.user)
    return max(0, min(mine, settings.queue_cap - transaction.count_unfinished()))


def _pause_itself(transaction: Transaction, sweep: JobRecord, failed: int) -> JobRecord:
    """Begin no more trials until a user resumes the sweep; those that hold GPUs keep running."""
    why = messages.sweep_failing(failed)
    for trial in transaction.trials_of(sweep.id):
        if trial.live is None and not trial.awaits_person:
            held = transaction.apply(lifecycle.hold(trial, "", transaction.now))
            transaction.put_job(held.with_standing(reason=why))
    paused = sweep.with_standing(held=True, by="", reason=why)
    return paused.with_act(transaction.now, messages.did("pause", ""))


def _share_service(transaction: Transaction, sweep: str, ended: float) -> None:
    """Count the service of all other trials for those that wait in line."""
    trials = transaction.trials_of(sweep)
    total = ended + sum(_served(trial, transaction.now) for trial in trials)
    for trial in trials:
        if trial.live is None:
            others = total - trial.standing.served
            if abs(others - trial.standing.sweep_served) > SERVICE_GRAIN:
                transaction.put_job(trial.with_standing(sweep_served=others))


def _served(trial: JobRecord, now: float) -> float:
    live = trial.live
    running = 0.0 if live is None or live.started is None else max(0.0, now - live.started) * live.gpus
    return trial.standing.served + running
