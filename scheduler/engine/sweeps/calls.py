"""Calls about a sweep and its trials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.sweeps import changes
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobRecord, TrialQuery
from springtide.scheduler.wording import given

ORDERS: Final = ("trial", "value")
"""Orders of trials; a minus before one reverses it."""
PRUNED: Final = "pruned"
STATES: Final = (*JobState, PRUNED)
"""States of trials."""


class SweepCalls:
    """Lists the trials of sweeps, and changes sweeps.

    ``request`` applies a change in a transaction, ``row`` returns the view of a trial that has begun.
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
        final = sweep.state.final
        items = [
            _not_begun(number, known, final=final) if job is None else self._row(begun[job])
            for number, job in page
            if job is None or job in begun
        ]
        more = first + limit < len(entries)
        return wire.TrialPage(items=items, next=str(first + limit) if more else None)

    async def _sweep(self, sweep_id: str) -> JobRecord:
        sweep = await self._jobs.get(sweep_id)
        if not sweep.is_sweep:
            raise Refusal(404, "not_found", f"The job {given(sweep_id)} is no sweep, so it has no trials.")
        return sweep

    async def _entries(self, sweep: JobRecord, query: TrialQuery) -> list[tuple[int, str | None]]:
        """Return the numbers of the trials that match, in order, with the jobs of those that have begun."""
        store, standing = self._threads.store, sweep.standing.sweep
        assert standing is not None
        entries: list[tuple[int, str | None]] = list(await self._threads.read(store.trials, query))
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
            stored = await self._threads.read(self._threads.store.jobs_by_id, missing)
            found |= {job.id: job for job in stored}
        return found

    async def _parameters(self, sweep: JobRecord) -> list[dict[str, Any]] | None:
        if sweep.spec.trials is None or not sweep.spec.trials.known:
            return None
        body = await self._threads.read(self._threads.store.sweep_parameters, sweep.id)
        return None if body is None else msgspec.json.decode(body, type=list[dict[str, Any]])

    async def retry(self, sweep_id: str) -> None:
        """Put the failed trials of an unfinished sweep in again; without any nothing changes."""
        done = False
        while not done:
            sweep = await self._sweep(sweep_id)
            changes.check_unfinished(sweep, "retry")
            assert sweep.standing.sweep is not None
            seen = sweep.standing.sweep.retries
            failed = await self._threads.read(self._threads.store.failed_trials, sweep_id)

            def apply(transaction: Transaction, failed: Any = failed, seen: int = seen) -> bool:
                return changes.retry(transaction, self._current(transaction, sweep_id), failed, seen)

            done = await self._request(apply)

    async def edit(self, sweep_id: str, change: wire.TrialsEdit) -> None:
        """Change the number or the bounds of an unfinished sweep's trials. Raises `Refusal`."""
        changes.check_unfinished(await self._sweep(sweep_id), "change")
        await self._request(
            lambda transaction: changes.edit(transaction, self._current(transaction, sweep_id), change)
        )

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


def _not_begun(number: int, known: list[dict[str, Any]] | None, *, final: bool) -> wire.TrialRow:
    """Return the row of a trial that has no job; in a sweep that has ended it never gets one."""
    state = JobState.CANCELLED if final else JobState.QUEUED
    parameters = None if known is None or number >= len(known) else known[number]
    return wire.TrialRow(trial=number, state=state.value, parameters=parameters)
