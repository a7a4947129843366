"""Sums of the ledger by day of each person in each project, so that reports by these and days read few rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

DAY = 86_400

_added = (
    *("held", "borrowed", "priced", "cost", "measured", "used", "idle"),
    *("jobs", "pauses", "lost"),
)
_whole = frozenset({"jobs", "pauses"})
_sums = sa.table("ledger_sums", *map(sa.column, ("step", "at", "group", *_added)))
_groups = sa.table("ledger_groups", *map(sa.column, ("id", "project", "user")))


def upgrade() -> None:
    """Add up the sums by day of the kinds of work and types of each person in each project."""
    of_people = op.create_table(
        "ledger_people",
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("group", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Integer if name in _whole else sa.Double, nullable=False) for name in _added),
        sqlite_with_rowid=False,
    )
    first = (
        sa.select(_groups.c.project, _groups.c.user, sa.func.min(_groups.c.id).label("id"))
        .group_by(_groups.c.project, _groups.c.user)
        .subquery()
    )
    joined = _sums.join(_groups, _groups.c.id == _sums.c.group).join(
        first, sa.and_(first.c.project == _groups.c.project, first.c.user == _groups.c.user)
    )
    columns = (_sums.c.at, first.c.id, *(sa.func.sum(_sums.c[name]) for name in _added))
    of_days = sa.select(*columns).select_from(joined).where(_sums.c.step == DAY)
    added_up = of_days.group_by(_sums.c.at, first.c.id)
    op.get_bind().execute(sa.insert(of_people).from_select(["at", "group", *_added], added_up))
