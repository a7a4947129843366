"""Another name for a person in the rows of jobs, deliveries, use, ledger and events; not of keyed state."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, select, update

from springtide.scheduler.store import schema
from springtide.scheduler.store.rows import as_json


def rename(connection: Connection, old: str, new: str) -> None:
    """Give the jobs, deliveries, usage, ledger and events of a person to the name ``new``.

    The audit trail, and what reasons say of the past, stay as they were written. The project trees that the person
    has sent are forgotten: clients send them again.
    """
    _rewrite_specs(connection, old, new)
    connection.execute(delete(schema.trees).where(schema.trees.c.user == old))
    named, renamed = (f'"user":{as_json(name)}' for name in (old, new))
    deliveries, events, usage = schema.deliveries, schema.events, schema.gpu_usage
    notification = func.replace(deliveries.c.notification, named, renamed)
    theirs = update(deliveries).where(deliveries.c.user == old)
    connection.execute(theirs.values(user=new, notification=notification))
    connection.execute(update(usage).where(usage.c.user == old).values(user=new))
    for table in (schema.ledger, schema.ledger_groups):
        connection.execute(update(table).where(table.c.user == old).values(user=new))
    about = update(events).where(events.c.data.contains(named, autoescape=True))
    connection.execute(about.values(data=func.replace(events.c.data, named, renamed)))


def _rewrite_specs(connection: Connection, old: str, new: str) -> None:
    jobs = schema.jobs
    rows = connection.execute(select(jobs.c.id, jobs.c.spec).where(jobs.c.user == old)).all()
    if rows:
        statement = update(jobs).where(jobs.c.id == bindparam("job_id"))
        connection.execute(
            statement, [{"job_id": row.id, "user": new, "spec": _with_user(row.spec, new)} for row in rows]
        )


def _with_user(text: str, user: str) -> str:
    spec: dict[str, Any] = msgspec.json.decode(text)
    return as_json({**spec, "user": user})
