"""The ledger of held GPUs, filled with the attempts that have ended; facts of the pool are known from now on.

When attempts began is corrected where the system clock was set while they ran.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

BATCH = 1000
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
RUN_AGAIN = 75
STOPPED = {"paused", "lost"}

_attempts = sa.table(
    "attempts",
    *(sa.column(name) for name in ("job", "number", "project", "gpus", "created", "ended", "body")),
)
_correct = (
    sa.update(_attempts)
    .where(_attempts.c.job == sa.bindparam("of"), _attempts.c.number == sa.bindparam("at"))
    .values(created=sa.bindparam("right"))
)
_jobs = sa.table("jobs", *(sa.column(name) for name in ("id", "user", "submitted", "trial", "spec", "standing")))


def upgrade() -> None:
    """Create the tables, and make entries of the attempts with GPUs that have ended.

    Live attempts and workspaces follow when the engine is opened.
    """
    _create()
    connection, ledger, number = op.get_bind(), _create_ledger(), 0
    for rows in _batches(connection):
        bodies = [(row, json.loads(row.body)) for row in rows]
        began = [(row, body, body.get("created", row.created)) for row, body in bodies]
        held = [each for each in began if each[0].gpus and each[0].ended is not None and each[0].ended > each[2]]
        if held:
            connection.execute(ledger.insert(), [_entry(number + at, *each) for at, each in enumerate(held, 1)])
            number += len(held)
        wrong = [
            {"of": row.job, "at": row.number, "right": start} for row, _, start in began if start != row.created
        ]
        if wrong:
            connection.execute(_correct, wrong)


def _batches(connection: sa.Connection) -> Iterator[Sequence[Any]]:
    """Yield all attempts with their jobs; of a deleted job the columns are null."""
    table, last = _attempts, ("", 0)
    known = sa.select(table, *(_jobs.c[name] for name in ("user", "submitted", "trial", "spec", "standing")))
    known = known.outerjoin_from(table, _jobs, table.c.job == _jobs.c.id)
    known = known.order_by(table.c.job, table.c.number).limit(BATCH)
    while rows := connection.execute(
        known.where(sa.or_(table.c.job > last[0], sa.and_(table.c.job == last[0], table.c.number > last[1])))
    ).all():
        yield rows
        last = rows[-1].job, rows[-1].number


def _entry(number: int, row: Any, body: dict[str, Any], start: float) -> dict[str, Any]:
    """Return the entry of an attempt. Of deleted jobs nothing is known but the project and the number of GPUs."""
    spec, standing = json.loads(row.spec or "{}"), json.loads(row.standing or "{}")
    started, state = body.get("started"), body.get("state", "")
    first = started is not None and standing.get("started") == started
    nodes: Counter[str] = Counter()
    for worker in body.get("placement", ()):
        nodes[worker["node"]] += len(worker["gpus"])
    return {
        "id": number,
        "job": row.job,
        "attempt": row.number,
        "user": row.user or "",
        "server": "",
        "project": row.project,
        "kind": "trial" if row.trial is not None else "test_run" if spec.get("tests") else "training",
        "gpu_type": body.get("gpu_type", ""),
        "nodes": json.dumps(nodes or {"": row.gpus}),
        "gpus": row.gpus,
        "borrowed": min(row.gpus, body.get("borrowed", 0)),
        "price": None,
        "start": start,
        "end": row.ended,
        "wait": max(0.0, started - row.submitted) if first else None,
        "ended": state,
        "lost": _lost(row, body) if state in STOPPED and body.get("exit_code") != RUN_AGAIN else 0.0,
    }


def _lost(row: Any, body: dict[str, Any]) -> float:
    started, saved = body.get("started"), body.get("saved")
    if started is None:
        return 0.0
    return float(max(0.0, row.ended - max(started, saved or started)) * row.gpus)


def _create_ledger() -> sa.Table:
    table = op.create_table(
        "ledger",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("server", sa.String(255), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("gpu_type", sa.String(128), nullable=False),
        sa.Column("nodes", sa.Text, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("borrowed", sa.Integer, nullable=False),
        sa.Column("price", sa.Double, nullable=True),
        sa.Column("start", sa.Double, nullable=False),
        sa.Column("end", sa.Double, nullable=False),
        sa.Column("wait", sa.Double, nullable=True),
        sa.Column("ended", sa.String(16), nullable=False),
        sa.Column("lost", sa.Double, nullable=False),
    )
    op.create_index("ix_ledger_end", "ledger", ["end"])
    return table


def _create() -> None:
    op.create_table(
        "holdings",
        sa.Column("job", sa.String(64), primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("user", sa.String(255), primary_key=True),
        sa.Column("server", sa.String(255), primary_key=True),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("wait", sa.Double, nullable=True),
        sa.Column("pieces", sa.Text, nullable=False),
    )
    op.create_table(
        "pool_facts",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("gpu_type", sa.String(128), primary_key=True),
        sa.Column("value", sa.Double, nullable=True),
        sa.Column("since", sa.Double, nullable=False),
    )
    op.create_table(
        "ledger_facts",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("gpu_type", sa.String(128), nullable=False),
        sa.Column("value", sa.Double, nullable=True),
        sa.Column("start", sa.Double, nullable=False),
        sa.Column("end", sa.Double, nullable=False),
    )
    op.create_table(
        "ledger_groups",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("gpu_type", sa.String(128), nullable=False),
    )
    op.create_table(
        "ledger_sums",
        sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("group", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("held", "borrowed", "priced", "cost")),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("measured", "used", "idle")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("jobs", "pauses")),
        sa.Column("lost", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ledger_waits",
        sa.Column("entry", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("group", sa.Integer, nullable=False),
        sa.Column("wait", sa.Double, nullable=False),
    )
