"""The writes of one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update

from springtide.scheduler.store import codec, deliveries, pruning, renaming, schema
from springtide.scheduler.store.errors import StoreTakenError
from springtide.scheduler.store.records import Bundle, WriteBatch

_update_job = update(schema.jobs).where(schema.jobs.c.id == bindparam("job_id"))
_update_attempt = update(schema.attempts).where(
    schema.attempts.c.job == bindparam("job_id"), schema.attempts.c.number == bindparam("attempt_number")
)
_epoch = select(schema.meta.c.value).where(schema.meta.c.key == "epoch").with_for_update()

_commit_mark = select(schema.meta.c.value).where(schema.meta.c.key == "commit")
_mark_commit = update(schema.meta).where(schema.meta.c.key == "commit").values(value=bindparam("mark"))


def check_epoch(connection: Connection, epoch: int) -> None:
    """Raises `StoreTakenError` unless ``epoch`` is still the store's."""
    found = connection.execute(_epoch).scalar()
    if found != epoch:
        raise StoreTakenError(
            f"Another Springtide service has taken over the store (epoch {found}, this service has {epoch}). "
            "This one has stopped deciding; its jobs continue under the other."
        )


def read_commit_mark(connection: Connection) -> int | None:
    """Return the mark of the last commit, None before the first."""
    found = connection.execute(_commit_mark).scalar()
    return None if found is None else int(found)


def commit(connection: Connection, mark: int, batch: WriteBatch, large: dict[str, int]) -> None:
    """Write the batch, and the mark of this commit, a number that no other commit has.

    ``large`` are sizes of bundles whose content lies in files.
    """
    if connection.execute(_mark_commit, {"mark": mark}).rowcount == 0:
        connection.execute(insert(schema.meta).values(key="commit", value=mark))
    for old, new in batch.renamed:
        renaming.rename(connection, old, new)
    insert_bundles(connection, batch.bundles, large)
    _jobs(connection, batch)
    _pool(connection, batch)
    _journals(connection, batch)


def insert_bundles(connection: Connection, bundles: Sequence[Bundle], large: dict[str, int]) -> None:
    """Write bundles that are not there yet; ``large`` are sizes of those whose content lies in files."""
    if not bundles:
        return
    wanted = {bundle.digest: bundle for bundle in bundles}
    present = connection.execute(select(schema.bundles.c.digest).where(schema.bundles.c.digest.in_(list(wanted))))
    for digest in present.scalars():
        del wanted[digest]
    rows = [
        {
            "digest": bundle.digest,
            "size": large.get(bundle.digest, len(bundle.content)),
            "content": None if bundle.digest in large else bundle.content,
        }
        for bundle in wanted.values()
    ]
    _insert(connection, schema.bundles, rows)


def save_tree(connection: Connection, user: str, bundle: Bundle, at: float, *, in_file: bool) -> None:
    """Write a packed tree that a user has sent; with ``in_file`` its content lies in a file."""
    table = schema.trees
    insert_bundles(connection, [bundle], {bundle.digest: len(bundle.content)} if in_file else {})
    connection.execute(delete(table).where(table.c.user == user, table.c.digest == bundle.digest))
    _insert(connection, table, [{"user": user, "digest": bundle.digest, "at": at}])


def keep_tree(connection: Connection, user: str, digest: str, at: float) -> None:
    """Note that a tree is about to be used by a job of the user who sent it."""
    table = schema.trees
    connection.execute(update(table).where(table.c.user == user, table.c.digest == digest).values(at=at))


def _jobs(connection: Connection, batch: WriteBatch) -> None:
    if batch.superseded:
        connection.execute(update(schema.jobs).where(schema.jobs.c.id.in_(batch.superseded)).values(trial=None))
    _insert(connection, schema.jobs, [codec.job_row(job) for job in batch.new_jobs])
    if batch.jobs:
        connection.execute(_update_job, [codec.standing_row(job) for job in batch.jobs])
    if batch.shifted_jobs:
        connection.execute(_update_job, [codec.shifted_row(job) for job in batch.shifted_jobs])
    if batch.marked_jobs:
        connection.execute(_update_job, [codec.marked_row(job) for job in batch.marked_jobs])
    if batch.respecified_jobs:
        connection.execute(_update_job, [codec.respecified_row(job) for job in batch.respecified_jobs])
    if batch.deleted_jobs:
        pruning.forget_jobs(connection, batch.deleted_jobs)
    parameters = [{"sweep": each.sweep, "body": each.body} for each in batch.sweep_parameters]
    _insert(connection, schema.sweep_parameters, parameters)
    if batch.new_attempts:
        projects = _projects_of(connection, batch)
        rows = [codec.attempt_row(attempt, projects[attempt.job]) for attempt in batch.new_attempts]
        _insert(connection, schema.attempts, rows)
    if batch.attempts:
        connection.execute(_update_attempt, [codec.attempt_update(attempt) for attempt in batch.attempts])


def _projects_of(connection: Connection, batch: WriteBatch) -> dict[str, str]:
    known = {job.id: job.spec.project for job in (*batch.new_jobs, *batch.jobs)}
    missing = [attempt.job for attempt in batch.new_attempts if attempt.job not in known]
    if missing:
        rows = connection.execute(
            select(schema.jobs.c.id, schema.jobs.c.project).where(schema.jobs.c.id.in_(missing))
        )
        known.update({row.id: row.project for row in rows})
    return known


def _pool(connection: Connection, batch: WriteBatch) -> None:
    for table, changes in batch.records.items():
        table.save(connection, changes)
    for environment, names in batch.gpu_types.items():
        connection.execute(delete(schema.gpu_types).where(schema.gpu_types.c.environment == environment.value))
        rows = [{"environment": environment.value, "name": name, "position": at} for at, name in enumerate(names)]
        _insert(connection, schema.gpu_types, rows)
    if batch.next_age is not None:
        _set_meta(connection, {"next_age": batch.next_age})
    if batch.clock is not None:
        _set_meta(connection, {"boot": batch.clock.boot, "clock_offset_ms": round(batch.clock.offset * 1000)})


def _journals(connection: Connection, batch: WriteBatch) -> None:
    codec.events.insert(connection, batch.events)
    deliveries.add(connection, batch.deliveries)
    codec.audit.insert(connection, batch.audit)
    if batch.undone:
        table = schema.audit
        connection.execute(update(table).where(table.c.id.in_(batch.undone)).values(undone=True))
    codec.decisions.insert(connection, batch.decisions)
    codec.ledger.insert(connection, batch.entries)
    codec.ledger_facts.insert(connection, batch.ended_facts)


def _set_meta(connection: Connection, values: dict[str, int]) -> None:
    connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(list(values))))
    _insert(connection, schema.meta, [{"key": key, "value": value} for key, value in values.items()])


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)
