"""Ranges of what the jobs of a project may ask for; columns and an index for lists of jobs."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

CHUNK = 1_000


def upgrade() -> None:
    """Give every project the default ranges; fill the columns of jobs from their specs."""
    op.add_column("projects", sa.Column("ranges", sa.Text, nullable=False, server_default="{}"))
    op.add_column("jobs", sa.Column("name", sa.String(128), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("gpus", sa.Integer, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("submitted", sa.Double, nullable=False, server_default="0"))
    _fill()
    listed = ["user", "project", "state", "name", "gpus", "submitted", "seq", "ended", "id"]
    op.create_index("ix_jobs_list", "jobs", listed)


def _fill() -> None:
    connection = op.get_bind()
    jobs = sa.table("jobs", *map(sa.column, ("id", "spec", "name", "gpus", "submitted")))
    last = ""
    while True:
        wanted = sa.select(jobs.c.id, jobs.c.spec).where(jobs.c.id > last).order_by(jobs.c.id).limit(CHUNK)
        rows = connection.execute(wanted).all()
        if not rows:
            return
        for row in rows:
            spec = json.loads(row.spec)
            values = {
                "name": spec["name"],
                "gpus": spec.get("gpus", 1) * spec.get("workers", 1),
                "submitted": spec["submitted"],
            }
            connection.execute(sa.update(jobs).where(jobs.c.id == row.id).values(values))
        last = rows[-1].id
