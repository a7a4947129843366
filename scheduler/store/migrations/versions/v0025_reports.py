"""The waits of jobs packed in a row for each day, and sums of projects by day, so that reports read few rows."""

from __future__ import annotations

import sys
from array import array
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

DAY = 86_400

_each = sa.table("ledger_waits", *(sa.column(name, sa.BigInteger) for name in ("at", "group")), sa.column("wait"))


def upgrade() -> None:
    """Pack the waits of each day; the shortest is the first."""
    connection, first = op.get_bind(), sa.func.min(_each.c.at)
    packed = op.create_table(
        "packed_waits",
        sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("groups", "seconds", "waits")),
    )
    op.create_index("ix_waits_at", "ledger_waits", ["at"])
    next_at = connection.execute(sa.select(first)).scalar()
    while next_at is not None:
        day = next_at // DAY * DAY
        of_day = sa.select(_each).where(_each.c.at >= day, _each.c.at < day + DAY).order_by(_each.c.wait)
        connection.execute(packed.insert().values(day=day, **_columns(connection.execute(of_day).all())))
        next_at = connection.execute(sa.select(first).where(_each.c.at >= day + DAY)).scalar()
    op.drop_table("ledger_waits")
    op.rename_table("packed_waits", "ledger_waits")
    _add_up_projects()


def _add_up_projects() -> None:
    op.create_table(
        "ledger_lots",
        sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("gpu_type", sa.String(128), primary_key=True),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("held", "borrowed")),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO ledger_lots SELECT sums.at, named.project, named.gpu_type, SUM(held), SUM(borrowed)"
        ' FROM ledger_sums AS sums JOIN ledger_groups AS named ON named.id = sums."group"'
        " WHERE sums.step = 86400 AND named.project <> '' GROUP BY sums.at, named.project, named.gpu_type"
    )


def _columns(rows: Any) -> dict[str, bytes]:
    return {
        "groups": _bytes("I", [row.group for row in rows]),
        "seconds": _bytes("I", [row.at % DAY for row in rows]),
        "waits": _bytes("d", [row.wait for row in rows]),
    }


def _bytes(kind: str, numbers: list[Any]) -> bytes:
    packed = array(kind, numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
