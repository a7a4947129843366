"""Quotas are stored as admins set them: bookings that have begun no longer change the stored ones."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

bookings = sa.table("bookings", *map(sa.column, ("project", "gpus", "lends")), sa.column("begun", sa.Boolean))
projects = sa.table("projects", *map(sa.column, ("name", "body")))
endings = sa.table("endings", *map(sa.column, ("kind", "subject", "before")))

QUOTA = "quota"


def upgrade() -> None:
    """Take what bookings that have begun added to quotas from them, and return what they took."""
    connection = op.get_bind()
    wanted = sa.select(bookings.c.project, bookings.c.gpus, bookings.c.lends).where(bookings.c.begun)
    for project, gpus, lends in connection.execute(wanted).all():
        if project:
            _change(connection, project, json.loads(gpus), -1)
            for lender, lent in json.loads(lends).items():
                _change(connection, lender, lent, 1)


def _change(connection: sa.Connection, project: str, by: Any, sign: int) -> None:
    of_project = projects.c.name == project
    for (text,) in connection.execute(sa.select(projects.c.body).where(of_project)).all():
        body = json.loads(text)
        body[QUOTA] = _sum(body.get(QUOTA, 0), by, sign)
        connection.execute(projects.update().where(of_project).values(body=json.dumps(body)))
    of_ending = sa.and_(endings.c.kind == QUOTA, endings.c.subject == project)
    for (text,) in connection.execute(sa.select(endings.c.before).where(of_ending)).all():
        before = _sum(json.loads(text), by, sign)
        connection.execute(endings.update().where(of_ending).values(before=json.dumps(before)))


def _sum(quota: Any, by: Any, sign: int) -> Any:
    """Return a quota with more or fewer GPUs: a number, a table by type, or None for no bound."""
    if quota is None or not by:
        return quota
    if isinstance(quota, int):
        return max(0, quota + sign * (by if isinstance(by, int) else sum(each or 0 for each in by.values())))
    more = dict.fromkeys(quota, by) if isinstance(by, int) and len(quota) == 1 else by
    if isinstance(more, int):
        return quota
    return {
        name: None if quota.get(name, 0) is None else max(0, quota.get(name, 0) + sign * (more.get(name) or 0))
        for name in {**quota, **more}
    }
