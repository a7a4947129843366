"""What users ask of a sweep, as changes to a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from springtide.scheduler import wire, wording
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobRecord, SweepStanding


def pause(transaction: Transaction, sweep: JobRecord, by: str) -> None:
    """Begin no more trials, and pause those that are unfinished, for the user ``by``."""
    if sweep.standing.held or sweep.standing.stopping:
        return
    transaction.put_job(sweep.with_standing(held=True, by=by, reason=messages.held_by(by)))
    for trial in transaction.trials_of(sweep.id):
        transaction.apply(lifecycle.hold(trial, by, transaction.now))


def resume(transaction: Transaction, sweep: JobRecord) -> None:
    """Let a paused sweep, and its paused trials, go on."""
    if not sweep.standing.held:
        return
    standing = replace(_standing(sweep), failed_in_row=0)
    transaction.put_job(sweep.with_standing(held=False, by="", reason=None, sweep=standing))
    for trial in transaction.trials_of(sweep.id):
        transaction.apply(lifecycle.resume(trial))


def cancel(transaction: Transaction, sweep: JobRecord, by: str) -> None:
    """Cancel the rest: end all unfinished trials, and begin no more."""
    if sweep.standing.stopping:
        return
    transaction.put_job(sweep.with_standing(held=False, stopping=messages.CANCEL, by=by, reason=None))
    for trial in transaction.trials_of(sweep.id):
        transaction.apply(lifecycle.cancel(trial, by, transaction.now))


def retry(transaction: Transaction, sweep: JobRecord, failed: Sequence[tuple[int, str]], seen: int) -> bool:
    """Put failed trials in again, named by their numbers and jobs; return whether the list was up to date.

    ``seen`` is the number of retries of the sweep when the list was read.
    """
    check_unfinished(sweep, "retry")
    standing = _standing(sweep)
    if standing.retries != seen:
        return False
    if failed:
        numbers = tuple(number for number, _ in failed)
        transaction.superseded.extend(job for _, job in failed)
        again = replace(
            standing,
            again=(*standing.again, *numbers),
            failed=standing.failed - len(numbers),
            failed_in_row=0,
            retries=standing.retries + 1,
        )
        transaction.put_job(sweep.with_standing(sweep=again))
    return True


def edit(transaction: Transaction, sweep: JobRecord, change: wire.TrialsEdit) -> None:
    """Change the number or the bounds of a sweep's trials. Raises `Refusal`."""
    check_unfinished(sweep, "change")
    standing = _standing(sweep)
    number = standing.number if change.number is None else change.number
    if number < standing.begun:
        raise _refused(
            "number",
            f"{wording.count(standing.begun, 'trial')} have begun already; the number cannot be {number}.",
            f"Choose {standing.begun} or more, or cancel the sweep to end it now.",
        )
    known = transaction.parameters_of(sweep.id)
    if known is not None and number > len(known):
        raise _refused(
            "number",
            f"The sweep was sent with the parameters of {wording.count(len(known), 'trial')}.",
            f"Choose {len(known)} or fewer, or submit another sweep with the others.",
        )
    at_most = standing.at_most if change.at_most is None else (change.at_most or None)
    at_least = standing.at_least if change.at_least is None else change.at_least
    edited = replace(standing, number=number, at_most=at_most, at_least=at_least)
    if edited != standing:
        transaction.put_job(sweep.with_standing(sweep=edited))


def check_unfinished(job: JobRecord, what: str) -> None:
    """Raise `Refusal` for what is no sweep, and for one that has ended or is being cancelled."""
    if not job.is_sweep:
        raise Refusal(
            409, "no_sweep", f"The job {wording.given(job.id)} is no sweep, so it has no trials to {what}."
        )
    if job.state.final or job.standing.stopping:
        state = job.state.value if job.state.final else JobState.CANCELLED.value
        raise Refusal(
            409,
            "ended",
            f"The sweep {wording.given(job.id)} has ended ({state}); there is nothing to {what}.",
            hint="Submit a sweep of what is missing. With retries=1 failed trials are tried again by themselves.",
        )


def _standing(sweep: JobRecord) -> SweepStanding:
    assert sweep.standing.sweep is not None
    return sweep.standing.sweep


def _refused(field: str, message: str, hint: str) -> Refusal:
    return Refusal(422, "invalid", message, field=field, hint=hint)
