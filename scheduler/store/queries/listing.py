"""Lists of jobs: filters, orders and pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, desc, func, not_, or_, select

from springtide.scheduler.arguments import Argument
from springtide.scheduler.model import JobState
from springtide.scheduler.store import schema
from springtide.scheduler.store.codec import tags_column
from springtide.scheduler.store.queries.shown_states import in_states
from springtide.scheduler.store.records import JobQuery, JobRecord
from springtide.scheduler.store.records.queries import MAX_LOOKED_AT
from springtide.scheduler.store.rows import as_json

Position = tuple[str | float, int]
"""Position of a job in an order: its value of the sort key, then a unique number."""

_NO_END = 1e15
"""Time that unfinished jobs count as ended in the order ``latest``, in s: after every end."""

FIRST = (JobState.RUNNING, JobState.STARTING, JobState.PAUSING, JobState.PAUSED, JobState.QUEUED)
"""The order of the states in the order ``running``; ended jobs come last."""

STATES = (*FIRST, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
"""The order of the states in the order ``state``."""

_jobs = schema.jobs
_rank = case({state.value: rank for rank, state in enumerate(FIRST)}, value=_jobs.c.state, else_=len(FIRST))
_state = case({state.value: rank for rank, state in enumerate(STATES)}, value=_jobs.c.state, else_=len(STATES))
_searched = (_jobs.c.name, _jobs.c.user, _jobs.c.project, _jobs.c.id, _jobs.c.tags)
_FINAL = frozenset(state.value for state in JobState if state.final)
_UNSET = tuple(as_json(Argument(value=value)) for value in (None, False))
"""Arguments in a spec that a plain word does not find, nor does a condition that names one alone."""
_ANY = '{"value":'
"""How any argument in a spec begins."""
_end = func.coalesce(_jobs.c.ended, _NO_END)
_line = case((_jobs.c.ended.is_(None), _jobs.c.seq), else_=-_jobs.c.seq)


@dataclass(frozen=True, slots=True)
class _Order:
    """An order: the columns that are sorted by, upwards, and the position of a record by the same values."""

    columns: tuple[ColumnElement[Any], ColumnElement[Any]]
    position: Callable[[JobRecord], Position]


def _rank_of(job: JobRecord) -> int:
    return FIRST.index(job.state) if job.state in FIRST else len(FIRST)


def _line_of(job: JobRecord) -> int:
    return job.spec.seq if job.standing.ended is None else -job.spec.seq


def _end_of(job: JobRecord) -> float:
    return _NO_END if job.standing.ended is None else job.standing.ended


ORDERS: dict[str, _Order] = {
    "newest": _Order((-_jobs.c.seq, -_jobs.c.seq), lambda job: (-job.spec.seq, -job.spec.seq)),
    "latest": _Order((-_end, -_jobs.c.seq), lambda job: (-_end_of(job), -job.spec.seq)),
    "running": _Order((_rank, _line), lambda job: (_rank_of(job), _line_of(job))),
    "state": _Order((_state, _line), lambda job: (STATES.index(job.state), _line_of(job))),
    "name": _Order((_jobs.c.name, _jobs.c.seq), lambda job: (job.spec.name, job.spec.seq)),
    "project": _Order((_jobs.c.project, _jobs.c.seq), lambda job: (job.spec.project, job.spec.seq)),
    "user": _Order((_jobs.c.user, _jobs.c.seq), lambda job: (job.spec.user, job.spec.seq)),
    "gpus": _Order((_jobs.c.gpus, _jobs.c.seq), lambda job: (job.spec.gpus * job.spec.workers, job.spec.seq)),
}
"""Orders of jobs. ``running``: running ones first, then those that wait, the oldest first, then ended ones, the
latest first. ``state``: the same, with those that ended in one way together. ``latest``: unfinished ones first,
the newest first, then ended ones by their ends, the latest first. A minus before the name reverses one."""


def _parsed(order: str) -> tuple[_Order, bool]:
    return ORDERS[order.removeprefix("-")], order.startswith("-")


def position(order: str, job: JobRecord) -> Position:
    """Return the position of the job in an order."""
    return _parsed(order)[0].position(job)


def page(connection: Connection, query: JobQuery, after: Position | None, limit: int) -> list[Any]:
    """Return the rows of the matching jobs after a position, in the order of the query.

    The ids are found in an index that has all that is needed; only the rows of the page are read.
    """
    wanted = _found(select(_jobs.c.id), query, connection)
    in_line = query.order == "newest" and not _few(query)
    wanted = _newest(wanted, after) if in_line else _ordered(wanted, query.order, after)
    ids = list(connection.execute(wanted.limit(limit)).scalars())
    rows = {row.id: row for row in connection.execute(select(_jobs).where(_jobs.c.id.in_(ids)))}
    return [rows[job_id] for job_id in ids if job_id in rows]


def newest(connection: Connection, query: JobQuery, limit: int) -> list[str]:
    """Return the ids of the newest matching jobs, whatever the order and the condition of the query."""
    wanted = _newest(_found(select(_jobs.c.id), query, connection), None)
    return list(connection.execute(wanted.limit(limit)).scalars())


def _found(wanted: Select[Any], query: JobQuery, connection: Connection) -> Select[Any]:
    database = connection.dialect.name
    wanted = _matching(wanted, query, database)
    newest = _newest(_matching(select(_jobs.c.id, _jobs.c.spec), query, database), None).limit(MAX_LOOKED_AT)
    for word in query.search.split():
        wanted = wanted.where(
            or_(_contains(word, database), _jobs.c.id.in_(_with_argument(word, newest, database)))
        )
    return wanted


def _few(query: JobQuery) -> bool:
    """Return whether less than a page may match, so that all jobs are looked at, which an index does best."""
    chosen = (query.search, query.states, query.tag, query.since is not None, query.viewer is not None)
    return query.sweep is None and any(chosen)


def _contains(word: str, database: str) -> ColumnElement[bool]:
    """Return that one of the searched columns has the word. They need not be joined for every job."""
    return or_(*(_has(column, word, database) for column in _searched))


def _has(column: ColumnElement[str], text: str, database: str) -> ColumnElement[bool]:
    """Return that a column has the text, whatever the case of ASCII letters.

    ``LIKE`` of SQLite ignores that case; PostgreSQL is given lower case of the collation ``C``, as its own takes
    ten times as long.
    """
    if database == "sqlite":
        return column.contains(text, autoescape=True)
    return func.lower(column.collate("C")).contains(text.encode().lower().decode(), autoescape=True)


def _with_argument(word: str, jobs: Select[Any], database: str) -> Select[Any]:
    """Return the ids of those jobs that have an argument of this name, with a value other than none and false.

    The name is compared as people type it: ``--use-amp``, as a command has it, is ``use_amp``. It is looked for in
    the JSON of the specs as it is written, which takes less time than reading it; quotes inside of texts have a
    backslash there. No index has the specs, so ``jobs`` are to be few.
    """
    among = jobs.subquery()
    key = as_json(word.lstrip("-").replace("-", "_").encode().lower().decode())

    def has(value: str) -> ColumnElement[bool]:
        return _has(among.c.spec, f"{key}:{value}", database)

    return select(among.c.id).where(has(_ANY), *(not_(has(unset)) for unset in _UNSET))


def _newest(wanted: Select[Any], after: Position | None) -> Select[Any]:
    """Sort by the column alone, so that an index gives the order and only the page is looked at."""
    if after is not None:
        wanted = wanted.where(_jobs.c.seq < -after[1])
    return wanted.order_by(desc(_jobs.c.seq))


def _ordered(wanted: Select[Any], name: str, after: Position | None) -> Select[Any]:
    order, reverse = _parsed(name)
    first, second = order.columns
    if after is not None:
        beyond = first < after[0] if reverse else first > after[0]
        tied = second < after[1] if reverse else second > after[1]
        wanted = wanted.where(or_(beyond, and_(first == after[0], tied)))
    way = desc if reverse else (lambda column: column)
    return wanted.order_by(way(first), way(second))


def _matching(wanted: Select[Any], query: JobQuery, database: str) -> Select[Any]:
    if query.sweep is not None:
        wanted = wanted.where(_jobs.c.sweep == query.sweep)
    elif not query.trials:
        wanted = wanted.where(_jobs.c.sweep.is_(None))
    if query.states:
        wanted = wanted.where(in_states(query.states, database))
        if not query.states & _FINAL:
            wanted = wanted.where(_jobs.c.ended.is_(None))  # the index of ends has these few together
    if query.project is not None:
        wanted = wanted.where(_jobs.c.project == query.project)
    if query.user is not None:
        wanted = wanted.where(_jobs.c.user == query.user)
    if query.since is not None:
        wanted = wanted.where(_jobs.c.submitted >= query.since)
    if query.tag is not None:
        wanted = wanted.where(func.replace(_jobs.c.tags, tags_column([query.tag]), "") != _jobs.c.tags)
    if query.pinned is not None:
        wanted = wanted.where(_jobs.c.pinned.is_(query.pinned))
    if query.archived is True:
        wanted = wanted.where(_jobs.c.archived.is_(True))
    if query.archived is False:
        wanted = wanted.where(or_(_jobs.c.archived.is_(False), _jobs.c.ended.is_(None)))
    if query.viewer is not None:
        wanted = wanted.where(or_(_jobs.c.user == query.viewer, _jobs.c.project.in_(list(query.viewer_projects))))
    return wanted
