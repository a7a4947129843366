"""Sums of the ledger by month, so that reports of long times read few rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

DAY, MONTH = 86_400, 2_678_400

_added = (
    *("held", "borrowed", "priced", "cost", "measured", "used", "idle"),
    *("jobs", "pauses", "lost"),
)
_sums = sa.table("ledger_sums", *map(sa.column, ("step", "at", "group", *_added)))


def upgrade() -> None:
    """Add up the sums of the days of each month in UTC."""
    connection, of_days = op.get_bind(), _sums.c.step == DAY
    next_day = connection.execute(sa.select(sa.func.min(_sums.c.at)).where(of_days)).scalar()
    while next_day is not None:
        first = datetime.fromtimestamp(next_day, UTC).replace(day=1)
        begin = int(first.timestamp())
        end = int((first + timedelta(days=31)).replace(day=1).timestamp())
        step, at = (sa.cast(sa.literal(number), sa.BigInteger) for number in (MONTH, begin))
        columns = (step, at, _sums.c.group, *(sa.func.sum(_sums.c[name]) for name in _added))
        of_month = sa.select(*columns).where(of_days, _sums.c.at >= begin, _sums.c.at < end)
        names = ["step", "at", "group", *_added]
        connection.execute(sa.insert(_sums).from_select(names, of_month.group_by(_sums.c.group)))
        next_day = connection.execute(
            sa.select(sa.func.min(_sums.c.at)).where(of_days, _sums.c.at >= end)
        ).scalar()
