"""Deletion of old rows, so that the store stays bounded."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import CompoundSelect, Connection, Table, delete, exists, func, or_, select, union_all, update

from springtide.scheduler.store import deliveries, schema, shown_forecasts

CHUNK = 500
"""Maximum number of bundles that one statement deletes."""


def drop_jobs(connection: Connection, ids: list[str]) -> None:
    """Delete ended jobs, their attempts and the forecasts of their starts; of sweeps also their parameters."""
    if not ids:
        return
    connection.execute(delete(schema.attempts).where(schema.attempts.c.job.in_(ids)))
    _drop_rows(connection, ids)


def _drop_rows(connection: Connection, ids: Sequence[str]) -> None:
    parameters = schema.sweep_parameters
    connection.execute(delete(parameters).where(parameters.c.sweep.in_(ids)))
    shown_forecasts.drop(connection, ids)
    connection.execute(delete(schema.jobs).where(schema.jobs.c.id.in_(ids), schema.jobs.c.ended.is_not(None)))


def forget_jobs(connection: Connection, ids: Sequence[str]) -> None:
    """Delete ended jobs, but not how long their attempts held GPUs: the use of projects stays what it was."""
    attempts = schema.attempts
    for first in range(0, len(ids), CHUNK):
        some = ids[first : first + CHUNK]
        connection.execute(update(attempts).where(attempts.c.job.in_(some)).values(body="{}"))
        _drop_rows(connection, some)


def drop_use(connection: Connection, job: str) -> None:
    """Delete what `forget_jobs` has left of a job, its trials and its test run, whose ids begin with its id."""
    attempts, jobs = schema.attempts, schema.jobs
    known = exists().where(jobs.c.id == attempts.c.job)
    theirs = or_(attempts.c.job == job, attempts.c.job.startswith(f"{job}t", autoescape=True))
    connection.execute(delete(attempts).where(theirs, ~known))


def unneeded_bundles(connection: Connection, ended_before: float, most_bytes: int) -> list[str]:
    """Return the digests of bundles that no unfinished job uses, and that are not kept for runs again.

    Kept are those of jobs that ended at ``ended_before`` or later, and trees that were sent then, of each user the
    newest, up to ``most_bytes``. Files that jobs of several users have in common count for one of them.
    """
    bundles, uses = schema.bundles, _uses().subquery()
    user, ended = func.max(uses.c.user), func.max(uses.c.ended)
    unfinished = func.count(uses.c.digest) - func.count(uses.c.ended)
    query = (
        select(bundles.c.digest, bundles.c.size, user, ended)
        .outerjoin_from(bundles, uses, uses.c.digest == bundles.c.digest)
        .group_by(bundles.c.digest, bundles.c.size)
        .having(unfinished == 0)
        .order_by(user, ended.desc())
    )
    kept: dict[str, int] = {}
    unneeded = []
    for digest, size, whose, last in connection.execute(query):
        total = kept.get(whose, 0) + size
        if last is None or last < ended_before or total > most_bytes:
            unneeded.append(digest)
        else:
            kept[whose] = total
    return unneeded


def _uses() -> CompoundSelect[tuple[str, str, float]]:
    """Return the query of all uses of bundles: digest, user, and when the use ended, None while it lasts."""
    jobs, trees = schema.jobs, schema.trees
    of_jobs = [
        select(column.label("digest"), jobs.c.user.label("user"), jobs.c.ended.label("ended")).where(
            column.is_not(None)
        )
        for column in (jobs.c.bundle, jobs.c.tree)
    ]
    return union_all(*of_jobs, select(trees.c.digest, trees.c.user, trees.c.at))


def drop_bundles(connection: Connection, digests: Sequence[str], sent_before: float) -> None:
    """Delete bundles, except those that an unfinished job uses, and forget who has sent them.

    Trees that were sent or asked for at ``sent_before`` or later stay: their job is about to come.
    """
    bundles, jobs, trees = schema.bundles, schema.jobs, schema.trees
    used = exists().where(
        or_(jobs.c.bundle == bundles.c.digest, jobs.c.tree == bundles.c.digest), jobs.c.ended.is_(None)
    )
    recent = exists().where(trees.c.digest == bundles.c.digest, trees.c.at >= sent_before)
    kept = exists().where(bundles.c.digest == trees.c.digest)
    for first in range(0, len(digests), CHUNK):
        some = digests[first : first + CHUNK]
        connection.execute(delete(bundles).where(bundles.c.digest.in_(some), ~used, ~recent))
        connection.execute(delete(trees).where(trees.c.digest.in_(some), ~kept))


def prune_journals(connection: Connection, *, events: int, decisions: int, audit_before: float) -> None:
    """Keep the newest events and decisions, deliveries of such events, and audit since ``audit_before``."""
    deliveries.prune(connection, events)
    keep_newest(connection, schema.events, events)
    keep_decisions(connection, decisions)
    drop_audit(connection, audit_before)


def keep_newest(connection: Connection, table: Table, keep: int) -> None:
    """Delete all rows of a journal but about the ``keep`` newest."""
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    if newest is not None:
        connection.execute(delete(table).where(table.c.id <= newest - keep))


def keep_decisions(connection: Connection, keep: int) -> None:
    """Delete all but the ``keep`` newest decisions and those from their base on."""
    table = schema.decisions
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    if newest is None:
        return
    base = connection.execute(select(func.min(table.c.base)).where(table.c.id > newest - keep)).scalar()
    connection.execute(delete(table).where(table.c.id < base))


def drop_audit(connection: Connection, before: float) -> None:
    """Delete audit entries older than ``before``, but never the newest entry."""
    table = schema.audit
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    connection.execute(delete(table).where(table.c.at < before, table.c.id != (newest or 0)))
