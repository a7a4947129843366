"""Another name for a person, in all that the store keeps of her."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, Table, bindparam, delete, func, select, update

from springtide.scheduler.store import schema

_OWN = (schema.default_projects, schema.notification_choices)
"""Tables with at most one row of each person."""
_BODIES = ((schema.notification_choices, "body"), (schema.deliveries, "notification"))
"""Tables whose rows name the person in a column of JSON, too."""


def rename(connection: Connection, old: str, new: str) -> None:
    """Give all that is a person's to the name ``new``, as far as the store keeps it by the name ``old``.

    The audit trail, and what reasons say of the past, stay as they were written.
    """
    for table in _OWN:
        connection.execute(delete(table).where(table.c.user == new))
    _rewrite_specs(connection, old, new)
    for table, column in _BODIES:
        _replace(connection, table, column, old, new)
    for table in (*_OWN, schema.deliveries, schema.gpu_usage):
        connection.execute(update(table).where(table.c.user == old).values(user=new))
    people = schema.people
    connection.execute(delete(people).where(people.c.name == new))
    connection.execute(update(people).where(people.c.name == old).values(name=new))
    named = f'"user":{_text(old)}'
    events = schema.events
    connection.execute(
        update(events)
        .where(events.c.data.contains(named, autoescape=True))
        .values(data=func.replace(events.c.data, named, f'"user":{_text(new)}'))
    )


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
    return _text({**spec, "user": user})


def _replace(connection: Connection, table: Table, column: str, old: str, new: str) -> None:
    text = table.c[column]
    replaced = func.replace(text, f'"user":{_text(old)}', f'"user":{_text(new)}')
    connection.execute(update(table).where(table.c.user == old).values({column: replaced}))


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
