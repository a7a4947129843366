"""Requests about a sweep and its trials, as changes to a transaction and as calls of the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from springtide.scheduler import wire, wording
from springtide.scheduler.arguments import Parameter
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.model import SHOWN_STATES, JobState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.queries import reading, trials
from springtide.scheduler.store.records import JobRecord, SweepStanding, TrialQuery
from springtide.scheduler.wording import given
from springtide.scheduler.workload import Workload

FAILED_AGAIN: Final = (
    "Send the failed ones as another sweep, in Python: "
    'pool.sweep(train, [trial.parameters for trial in sweep.trials(state="failed")]), '
    'and those of a map by pool.map(f, [trial.parameters["item"] for trial in …]). '
    "With retries=1 a trial is tried again when it fails."
)


def pause(transaction: Transaction, sweep: JobRecord, by: str) -> None:
    """Begin no more trials, and pause those that are unfinished, for the user ``by``."""
    if sweep.standing.held or sweep.standing.stopping:
        return
    paused = sweep.with_standing(held=True, by=by, reason=messages.held_by(by))
    transaction.put_job(paused.with_act(transaction.now, messages.did("pause", by)))
    for trial in transaction.trials_of(sweep.id):
        transaction.apply(lifecycle.hold(trial, by, transaction.now))


def resume(transaction: Transaction, sweep: JobRecord, by: str) -> None:
    """Resume a paused sweep and its paused trials, for the user ``by``."""
    if not sweep.standing.held:
        return
    standing = replace(_standing(sweep), failed_in_row=0)
    resumed = sweep.with_standing(held=False, by="", reason=None, sweep=standing)
    transaction.put_job(resumed.with_act(transaction.now, messages.did("resume", by)))
    for trial in transaction.trials_of(sweep.id):
        transaction.apply(lifecycle.resume(trial, by, transaction.now))


def cancel(transaction: Transaction, sweep: JobRecord, by: str, *, at_once: bool = False) -> None:
    """Cancel the rest: end all unfinished trials, ``at_once`` without time to save, and begin no more."""
    if sweep.standing.stopping and not at_once:
        return
    noted = sweep.with_act(transaction.now, messages.did("end-now" if at_once else "cancel", by))
    if not sweep.standing.stopping:
        noted = noted.with_standing(held=False, stopping=messages.CANCEL, by=by, reason=None)
    transaction.put_job(noted)
    for trial in transaction.trials_of(sweep.id):
        transaction.apply(lifecycle.cancel(trial, by, transaction.now, at_once=at_once))


def retry(transaction: Transaction, sweep: JobRecord, failed: Sequence[tuple[int, str]], seen: int) -> bool:
    """Put failed trials in again, named by their numbers and jobs; return whether the list was up to date.

    ``seen`` is the number of retries of the sweep when the list was read.
    """
    check_unfinished(sweep, "retry")
    standing = _standing(sweep)
    if standing.generation is not None:
        raise Refusal(
            409,
            "population",
            f"The sweep {wording.given(sweep.id)} trains a population, whose failed members continue as copies of "
            "better ones; their trials are not retried.",
            hint="With retries=1 each trial of a member is tried again when it fails.",
        )
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
    if standing.generation is not None and number != standing.number:
        raise _refused(
            "number",
            "The sweep trains a population: its number of trials is that of members times generations.",
            "Change at_most or at_least, or submit a population with more generations.",
        )
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
    """Raise `Refusal` unless the job is a sweep that has not ended and is not being cancelled."""
    if job.workload is not Workload.SWEEP:
        raise Refusal(
            409, "no_sweep", f"The job {wording.given(job.id)} is no sweep, so it has no trials to {what}."
        )
    if job.state.final or job.standing.stopping:
        standing = _standing(job)
        trials = f", {wording.trials_failed(standing.failed, standing.number)}" if standing.failed else ""
        ended = f"has ended ({job.state}{trials})" if job.state.final else "is being cancelled"
        raise Refusal(
            409,
            "ended",
            f"The sweep {wording.given(job.id)} {ended}, and begins no more trials.",
            hint=FAILED_AGAIN if standing.failed and standing.generation is None else "Submit another sweep.",
        )


def _standing(sweep: JobRecord) -> SweepStanding:
    assert sweep.standing.sweep is not None
    return sweep.standing.sweep


def _refused(field: str, message: str, hint: str) -> Refusal:
    return Refusal(422, "invalid", message, field=field, hint=hint)


ORDERS: Final = ("trial", "value")
"""Orders of trials; a minus before one reverses it."""
PRUNED: Final = "pruned"
STATES: Final = (*SHOWN_STATES, PRUNED)
"""States of trials."""


class SweepCalls:
    """Lists the trials of sweeps, and changes sweeps.

    ``request`` applies a change in a transaction, ``row`` returns the view of a begun trial.
    """

    def __init__(
        self,
        state: State,
        store: StoreThreads,
        jobs: JobLookup,
        *,
        request: Callable[[Callable[[Transaction], Any]], Awaitable[Any]],
        row: Callable[[JobRecord], wire.TrialRow],
    ) -> None:
        self._state = state
        self._threads = store
        self._jobs = jobs
        self._request = request
        self._row = row

    async def trials(self, sweep_id: str, query: TrialQuery, cursor: str | None, limit: int) -> wire.TrialPage:
        """Return a page of the trials of a sweep. Raises `Refusal` for an unknown sweep or cursor."""
        sweep = await self._sweep(sweep_id)
        first = _position(cursor)
        entries = await self._entries(sweep, query)
        page = entries[first : first + limit]
        begun = await self._begun([job for _, job in page if job is not None])
        known = await self._parameters(sweep) if any(job is None for _, job in page) else None
        items = [
            _not_begun(sweep, number, known) if job is None else self._row(begun[job])
            for number, job in page
            if job is None or job in begun
        ]
        more = first + limit < len(entries)
        return wire.TrialPage(items=items, next=str(first + limit) if more else None)

    async def _sweep(self, sweep_id: str) -> JobRecord:
        sweep = await self._jobs.get(sweep_id)
        if sweep.workload is not Workload.SWEEP:
            raise Refusal(404, "not_found", f"The job {given(sweep_id)} is no sweep, so it has no trials.")
        return sweep

    async def _entries(self, sweep: JobRecord, query: TrialQuery) -> list[tuple[int, str | None]]:
        """Return the numbers of the matching trials, in order, with the jobs of the begun ones."""
        standing = sweep.standing.sweep
        assert standing is not None
        entries: list[tuple[int, str | None]] = list(await self._threads.read(trials.listed, query))
        not_begun = JobState.CANCELLED if sweep.state.final else JobState.QUEUED
        if not query.states or not_begun in query.states:
            entries += [(number, None) for number in (*standing.again, *range(standing.begun, standing.number))]
            if query.order.removeprefix("-") == "trial":
                entries.sort(key=lambda each: each[0], reverse=query.order.startswith("-"))
        return entries

    async def _begun(self, ids: list[str]) -> dict[str, JobRecord]:
        found = {job_id: job for job_id in ids if (job := self._jobs.in_memory(job_id)) is not None}
        missing = [job_id for job_id in ids if job_id not in found]
        if missing:
            stored = await self._threads.read(reading.jobs_by_id, missing)
            found |= {job.id: job for job in stored}
        return found

    async def _parameters(self, sweep: JobRecord) -> list[dict[str, Parameter]] | None:
        if sweep.spec.trials is None or not sweep.spec.trials.known:
            return None
        body = await self._threads.read(trials.parameters, sweep.id)
        return None if body is None else msgspec.json.decode(body, type=list[dict[str, Parameter]])

    async def retry(self, sweep_id: str) -> None:
        """Put the failed trials of an unfinished sweep in again; without any nothing changes."""
        done = False
        while not done:
            sweep = await self._sweep(sweep_id)
            check_unfinished(sweep, "retry")
            assert sweep.standing.sweep is not None
            seen = sweep.standing.sweep.retries
            failed = await self._threads.read(trials.failed, sweep_id)

            def apply(transaction: Transaction, failed: Any = failed, seen: int = seen) -> bool:
                return retry(transaction, self._current(transaction, sweep_id), failed, seen)

            done = await self._request(apply)

    async def edit(self, sweep_id: str, change: wire.TrialsEdit) -> None:
        """Change the number or the bounds of an unfinished sweep's trials. Raises `Refusal`."""
        check_unfinished(await self._sweep(sweep_id), "change")
        await self._request(lambda transaction: edit(transaction, self._current(transaction, sweep_id), change))

    def _current(self, transaction: Transaction, sweep_id: str) -> JobRecord:
        sweep = transaction.job(sweep_id) or self._jobs.in_memory(sweep_id)
        assert sweep is not None
        return sweep


def trial_query(sweep: str, order: str, states: str) -> TrialQuery:
    """Return the query of a list of trials. Raises `Refusal` for an unknown order or state."""
    if order.removeprefix("-") not in ORDERS:
        hint = f"Known are: {', '.join(ORDERS)}; a minus before one reverses it."
        raise Refusal(422, "invalid", f"{given(order, 40)} is no order of trials.", field="sort", hint=hint)
    wanted = frozenset(filter(None, states.split(",")))
    unknown = sorted(wanted - set(STATES))
    if unknown:
        hint = f"Known are: {', '.join(STATES)}."
        raise Refusal(422, "invalid", f"{given(unknown[0], 40)} is no state of a trial.", field="state", hint=hint)
    return TrialQuery(sweep, wanted, order)


def _position(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 9):
        message = f"{given(cursor, 40)} is not a cursor of this list."
        raise Refusal(422, "invalid", message, field="cursor", hint="Use `next`.")
    return int(cursor)


def _not_begun(sweep: JobRecord, number: int, known: list[dict[str, Any]] | None) -> wire.TrialRow:
    """Return the row of a trial without a job; in an ended sweep it never gets one."""
    state = JobState.CANCELLED if sweep.state.final else JobState.QUEUED
    parameters = None if known is None or number >= len(known) else known[number]
    population = None if sweep.spec.trials is None else sweep.spec.trials.population
    return wire.TrialRow(
        trial=number,
        state=state.value,
        shown=state.value,
        parameters=parameters,
        member=None if population is None else population.member_of(number),
        generation=None if population is None else population.generation_of(number),
    )
