"""Options of a job in one object of its spec; those that follow from others are left to follow."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

BATCH = 1000
OPTIONS = (
    *("workers", "gpus", "min_workers", "priority", "preemptible", "rotate", "gpu_types", "require", "prefer"),
    *("cpus", "memory", "rdma", "time_limit", "grace", "image", "datasets", "requirements", "retries", "env"),
    *("tags", "test_run"),
)
PREEMPTIBLE_BELOW = 100

_jobs = sa.table("jobs", sa.column("id", sa.String), sa.column("spec", sa.Text))


def upgrade() -> None:
    """Put the options of all jobs into an object."""
    connection, last = op.get_bind(), ""
    page = sa.select(_jobs).where(_jobs.c.id > sa.bindparam("last")).order_by(_jobs.c.id).limit(BATCH)
    change = sa.update(_jobs).where(_jobs.c.id == sa.bindparam("job")).values(spec=sa.bindparam("nested"))
    while rows := connection.execute(page, {"last": last}).all():
        connection.execute(change, [{"job": job, "nested": json.dumps(_nested(spec))} for job, spec in rows])
        last = rows[-1][0]


def _nested(text: str) -> dict[str, Any]:
    spec = json.loads(text)
    options = {name: spec.pop(name) for name in OPTIONS if name in spec}
    for name in ("cpus", "memory"):
        options[name] = options.get(name) or None
    if options.get("min_workers") == options.get("workers"):
        options.pop("min_workers", None)
    if options.get("preemptible") == (options.get("priority", 50) < PREEMPTIBLE_BELOW):
        options.pop("preemptible", None)
    return {**spec, "options": options}
