"""Queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, desc, func, or_, select

from springtide.scheduler.clock import ClockAnchor
from springtide.scheduler.model import Environment
from springtide.scheduler.runs import Run
from springtide.scheduler.store import codec, schema
from springtide.scheduler.store.queries import listing, trials
from springtide.scheduler.store.queries.listing import Position
from springtide.scheduler.store.records import (
    KEPT_ATTEMPTS,
    RENAME,
    UNDO,
    AttemptRecord,
    AuditQuery,
    AuditRecord,
    DecisionRecord,
    EventRecord,
    JobQuery,
    JobRecord,
    Loaded,
    Withheld,
)
from springtide.scheduler.store.tables import TABLES, HubStanding, Tables

Attempts = Mapping[str, Sequence[AttemptRecord]]
"""Attempts by job, oldest first."""
CHUNK = 500
RUNS_AT_ONCE = 100
MOST_RENAMES = 20
"""Maximum number of former names of a person whose entries of the audit trail are found."""
"""Number of jobs that are read at a time for a condition: a source may be large."""


class _Standing(msgspec.Struct):
    """The part of a job's standing that `withheld` reads."""

    withheld: Withheld | None = None


def withheld(connection: Connection) -> list[Withheld]:
    """Return why unfinished jobs are withheld, of each that is."""
    standings = select(schema.jobs.c.standing).where(schema.jobs.c.ended.is_(None))
    found = (
        msgspec.json.decode(text, type=_Standing).withheld for text in connection.execute(standings).scalars()
    )
    return [each for each in found if each is not None]


def owners_who_left(connection: Connection) -> list[str]:
    """Return the owner of each unfinished job whose owner has no user any more."""
    jobs, users = schema.jobs, Tables.hub_users.sql
    left = select(users.c.name).where(users.c.standing == HubStanding.LEFT.value)
    theirs = select(jobs.c.user).where(jobs.c.ended.is_(None), jobs.c.sweep.is_(None), jobs.c.user.in_(left))
    return list(connection.execute(theirs).scalars())


def load(connection: Connection) -> Loaded:
    """Return all that the engine keeps in memory."""
    table, attempts = schema.jobs, schema.attempts
    unfinished = table.c.ended.is_(None)
    rows = connection.execute(
        select(table.c.spec, table.c.standing, table.c.id).where(unfinished).order_by(table.c.seq)
    )
    theirs = select(attempts).where(attempts.c.job.in_(select(table.c.id).where(unfinished)))
    attempts_by_job = _by_job(connection.execute(theirs.order_by(attempts.c.job, attempts.c.number)))
    meta = {row.key: row.value for row in connection.execute(select(schema.meta))}
    return Loaded(
        records={table: table.load(connection) for table in TABLES},
        jobs=tuple(_joined(rows, attempts_by_job)),
        fresh="next_age" not in meta,
        clock=ClockAnchor(meta["boot"], meta["clock_offset_ms"] / 1000) if "boot" in meta else None,
        next_age=meta.get("next_age", 0),
        last_job=_highest(connection, schema.jobs.c.seq),
        last_event=_highest(connection, schema.events.c.id),
        last_audit=_highest(connection, schema.audit.c.id),
        last_decision=_highest(connection, schema.decisions.c.id),
        last_entry=_highest(connection, schema.ledger.c.id),
        last_fact=_highest(connection, schema.ledger_facts.c.id),
        gpu_types=_gpu_types(connection),
        sweep_parameters=trials.unfinished_parameters(connection),
    )


def _gpu_types(connection: Connection) -> dict[Environment, tuple[str, ...]]:
    found: dict[Environment, tuple[str, ...]] = {}
    for row in connection.execute(select(schema.gpu_types).order_by(schema.gpu_types.c.position)):
        environment = Environment(row.environment)
        found[environment] = (*found.get(environment, ()), row.name)
    return found


def _highest(connection: Connection, column: Any) -> int:
    return int(connection.execute(select(func.max(column))).scalar() or 0)


def _with_attempts(connection: Connection, rows: list[Any]) -> list[JobRecord]:
    return _joined(rows, attempts_of(connection, [row.id for row in rows]))


def _joined(rows: Iterable[Any], attempts: Attempts) -> list[JobRecord]:
    return [codec.job_record(row, tuple(attempts.get(row.id, ())[-KEPT_ATTEMPTS:])) for row in rows]


def attempts_of(connection: Connection, ids: list[str]) -> Attempts:
    """Return attempts by job, oldest first."""
    found: dict[str, list[AttemptRecord]] = {}
    table = schema.attempts
    for first in range(0, len(ids), CHUNK):
        query = (
            select(table).where(table.c.job.in_(ids[first : first + CHUNK])).order_by(table.c.job, table.c.number)
        )
        found |= _by_job(connection.execute(query))
    return found


def _by_job(rows: Iterable[Any]) -> dict[str, list[AttemptRecord]]:
    found: dict[str, list[AttemptRecord]] = defaultdict(list)
    for row in rows:
        found[row.job].append(codec.attempt_record(row))
    return found


def job(connection: Connection, job_id: str) -> JobRecord | None:
    """Return a job with its latest attempts, None if there is none."""
    rows = list(connection.execute(select(schema.jobs).where(schema.jobs.c.id == job_id)))
    return _with_attempts(connection, rows)[0] if rows else None


def jobs_by_key(connection: Connection, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobRecord]:
    """Return the jobs that users' keys were accepted for."""
    table = schema.jobs
    by_user: dict[str, list[str]] = defaultdict(list)
    for user, key in keys:
        by_user[user].append(key)
    rows: list[Any] = []
    for user, wanted in by_user.items():
        rows += connection.execute(select(table).where(table.c.user == user, table.c.key.in_(wanted)))
    return {(row.user, row.key): job for row, job in zip(rows, _with_attempts(connection, rows), strict=True)}


def jobs(connection: Connection, query: JobQuery, after: Position | None, limit: int) -> list[JobRecord]:
    """Return jobs that match, in the order of the query, those after a position."""
    return _with_attempts(connection, listing.page(connection, query, after, limit))


def newest_runs(connection: Connection, query: JobQuery, limit: int) -> list[Run]:
    """Return the newest matching jobs as rows of the table of runs, the newest first."""
    ids, table = listing.newest(connection, query, limit), schema.jobs
    found: dict[str, Run] = {}
    for first in range(0, len(ids), RUNS_AT_ONCE):
        some = ids[first : first + RUNS_AT_ONCE]
        wanted = select(table.c.id, table.c.spec, table.c.standing).where(table.c.id.in_(some))
        rows: list[Any] = list(connection.execute(wanted))
        found |= {row.id: codec.job_record(row, ()).run for row in rows}
    return [found[job_id] for job_id in ids if job_id in found]


def names(connection: Connection, user: str, stem: str) -> frozenset[str]:
    """Return the names of a person's jobs that begin with ``stem``."""
    jobs = schema.jobs.c
    found = select(jobs.name).where(jobs.user == user, jobs.name.startswith(stem, autoescape=True)).distinct()
    return frozenset(connection.execute(found).scalars())


def jobs_by_id(connection: Connection, ids: Sequence[str]) -> list[JobRecord]:
    """Return the jobs with these ids, in their order."""
    found = {
        each.id: each
        for first in range(0, len(ids), CHUNK)
        for each in _with_attempts(
            connection,
            list(connection.execute(select(schema.jobs).where(schema.jobs.c.id.in_(ids[first : first + CHUNK])))),
        )
    }
    return [found[job_id] for job_id in ids if job_id in found]


def events(connection: Connection, after: int, limit: int) -> list[EventRecord]:
    """Return events with ids above ``after``, in order."""
    table = schema.events
    query = select(table).where(table.c.id > after).order_by(table.c.id).limit(limit)
    return codec.events.read(connection, query)


def audit(connection: Connection, chosen: AuditQuery, before: int | None, limit: int) -> list[AuditRecord]:
    """Return chosen entries of the audit trail, newest first, with ids below ``before``.

    Those of a person who was renamed are among them, under the name that she had then.
    """
    table = schema.audit
    by = () if chosen.who is None else (or_(*_by(connection, chosen.who)),)
    query = select(table).where(*by, *_conditions(chosen)).order_by(desc(table.c.id)).limit(limit)
    if before is not None:
        query = query.where(table.c.id < before)
    return codec.audit.read(connection, query)


def _by(connection: Connection, name: str) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of entries under a name, and of earlier ones under former names of the same person."""
    entry = schema.audit.c
    yield entry.who == name
    renamed = _renamed_to(connection, name, None)
    for _ in range(MOST_RENAMES):
        if renamed is None:
            return
        former = renamed.before["name"]
        earlier = _renamed_to(connection, former, renamed.at)
        since = () if earlier is None else (entry.id >= earlier.id,)
        yield and_(entry.who == former, entry.id < renamed.id, *since)
        renamed = earlier


def _renamed_to(connection: Connection, name: str, before: float | None) -> AuditRecord | None:
    """Return the entry of the latest time at which a person got a name, ``before`` a time if that is given.

    Two people who exchange their names do so at the same time.
    """
    entry = schema.audit.c
    query = (
        select(schema.audit).where(entry.what == RENAME, entry.subject == name).order_by(desc(entry.id)).limit(1)
    )
    found = codec.audit.read(connection, query if before is None else query.where(entry.at < before))
    return found[0] if found else None


def _conditions(chosen: AuditQuery) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of entries of the audit trail, but for who made them."""
    entry = schema.audit.c
    if chosen.what is not None:
        kinds = (chosen.what, f"{UNDO}{chosen.what}")
        begins = (entry.what.startswith(f"{kind}.", autoescape=True) for kind in kinds)
        yield or_(entry.what.in_(kinds), *begins, entry.what.endswith(f".{chosen.what}", autoescape=True))
    if chosen.project is not None:
        yield or_(entry.project == chosen.project, entry.other_project == chosen.project)
    if chosen.visible is not None:
        yield or_(entry.project.in_(chosen.visible), entry.other_project.in_(chosen.visible))
    if chosen.start is not None:
        yield entry.at >= chosen.start
    if chosen.end is not None:
        yield entry.at < chosen.end


def audit_entry(connection: Connection, audit_id: int) -> AuditRecord | None:
    """Return an entry of the audit trail, None if there is none."""
    found = codec.audit.read(connection, select(schema.audit).where(schema.audit.c.id == audit_id))
    return found[0] if found else None


def decisions(connection: Connection, first: int, last: int) -> list[DecisionRecord]:
    """Return decisions from ``first`` to ``last``, in order."""
    table = schema.decisions
    query = select(table).where(table.c.id >= first, table.c.id <= last).order_by(table.c.id)
    return codec.decisions.read(connection, query)


def decision_ids(connection: Connection) -> tuple[int, int] | None:
    """Return the ids of the oldest and the newest decision; None when there is none."""
    ids = schema.decisions.c.id
    oldest, newest = connection.execute(select(func.min(ids), func.max(ids))).one()
    return None if oldest is None else (int(oldest), int(newest))


def ended_before(connection: Connection, at: float, limit: int) -> list[str]:
    """Return ids of jobs that ended before ``at``, longest ago first; trials are kept as long as their sweep."""
    table = schema.jobs
    query = (
        select(table.c.id).where(table.c.ended < at, table.c.sweep.is_(None)).order_by(table.c.ended).limit(limit)
    )
    return list(connection.execute(query).scalars())


def bundle(connection: Connection, digest: str) -> tuple[bool, bytes | None]:
    """Return whether the bundle is known, and its content if that is kept in SQL."""
    row = connection.execute(select(schema.bundles.c.content).where(schema.bundles.c.digest == digest)).first()
    return (row is not None, None if row is None else row.content)


def tree_bytes(connection: Connection, user: str, digest: str) -> int | None:
    """Return the size of a packed tree in bytes, None unless this user has sent it."""
    trees, bundles = schema.trees, schema.bundles
    query = (
        select(bundles.c.size)
        .join_from(trees, bundles, trees.c.digest == bundles.c.digest)
        .where(trees.c.user == user, trees.c.digest == digest)
    )
    found = connection.execute(query).scalar()
    return None if found is None else int(found)


def bundle_digests(connection: Connection) -> frozenset[str]:
    """Return every known bundle whose content lies in a file."""
    query = select(schema.bundles.c.digest).where(schema.bundles.c.content.is_(None))
    found: Iterable[str] = connection.execute(query).scalars()
    return frozenset(found)
