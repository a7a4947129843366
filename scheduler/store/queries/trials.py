"""Trials of sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, and_, false, nulls_last, or_, select, true

from springtide.scheduler.model import FINAL, JobState
from springtide.scheduler.store import schema
from springtide.scheduler.store.queries.shown_states import in_states
from springtide.scheduler.store.records import FinishedTrial, Outcome, SweepParameters, TrialQuery, TrialRef

PRUNED = "pruned"
"""State of a successful trial that ended itself early."""
_jobs = schema.jobs


class _Ref(msgspec.Struct):
    """The part of a job's spec with its trial."""

    trial: TrialRef


class _Outcome(msgspec.Struct):
    """The part of a job's standing that its outcome is."""

    outcome: Outcome | None = None


_ref = msgspec.json.Decoder(_Ref)
_outcome = msgspec.json.Decoder(_Outcome)


def parameters(connection: Connection, sweep: str) -> bytes | None:
    """Return the parameters of a sweep's trials that were known beforehand, as a JSON list."""
    table = schema.sweep_parameters
    body = connection.execute(select(table.c.body).where(table.c.sweep == sweep)).scalar()
    return None if body is None else bytes(body)


def unfinished_parameters(connection: Connection) -> tuple[SweepParameters, ...]:
    """Return the parameters known beforehand of all unfinished sweeps."""
    table = schema.sweep_parameters
    wanted = table.c.sweep.in_(select(_jobs.c.id).where(_jobs.c.ended.is_(None)))
    return tuple(
        SweepParameters(row.sweep, bytes(row.body)) for row in connection.execute(select(table).where(wanted))
    )


def listed(connection: Connection, query: TrialQuery) -> list[tuple[int, str]]:
    """Return the numbers and the jobs of the matching trials, in the order of the query."""
    reverse = query.order.startswith("-")
    column = _jobs.c.value if query.order.removeprefix("-") == "value" else _jobs.c.trial
    wanted = _of(query.sweep)
    if query.states:
        wanted = wanted.where(_in_states(query.states, connection.dialect.name))
    ordered = nulls_last(column.desc() if reverse else column.asc())
    return [(row.trial, row.id) for row in connection.execute(wanted.order_by(ordered, _jobs.c.trial))]


def _in_states(states: AbstractSet[str], database: str) -> ColumnElement[bool]:
    succeeded = _jobs.c.state == JobState.SUCCEEDED.value
    outcomes = {PRUNED: true(), JobState.SUCCEEDED.value: false()}
    ended = [and_(succeeded, _jobs.c.pruned == pruned) for name, pruned in outcomes.items() if name in states]
    return or_(*ended, in_states(states - set(outcomes), database))


def failed(connection: Connection, sweep: str) -> list[tuple[int, str]]:
    """Return the numbers and the jobs of a sweep's failed trials, in order."""
    query = _of(sweep).where(_jobs.c.state == JobState.FAILED.value).order_by(_jobs.c.trial)
    return [(row.trial, row.id) for row in connection.execute(query)]


def ids(connection: Connection, sweep: str) -> Sequence[str]:
    """Return the ids of all jobs of a sweep's trials, also of those that were tried again."""
    return list(connection.execute(select(_jobs.c.id).where(_jobs.c.sweep == sweep)).scalars())


def history(connection: Connection, sweep: str) -> list[FinishedTrial]:
    """Return the begun trials of a sweep, in order."""
    columns = _of(sweep).add_columns(_jobs.c.state, _jobs.c.spec, _jobs.c.standing).order_by(_jobs.c.trial)
    return [_finished(row) for row in connection.execute(columns)]


def _finished(row: Any) -> FinishedTrial:
    outcome = _outcome.decode(row.standing).outcome or Outcome()
    known = outcome.parameters
    if known is None:
        known = _ref.decode(row.spec).trial.parameters
    state = JobState(row.state)
    return FinishedTrial(row.trial, state if state in FINAL else JobState.RUNNING, known, outcome)


def _of(sweep: str) -> Select[Any]:
    return select(_jobs.c.trial, _jobs.c.id).where(_jobs.c.sweep == sweep, _jobs.c.trial.is_not(None))
