"""Marks of jobs: which are pinned and which are archived, also in the index of lists."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

LISTED = ["user", "project", "state", "name", "gpus", "submitted", "seq", "ended", "id", "sweep", "tags"]
MARKS = ["pinned", "archived"]


def upgrade() -> None:
    """Add the columns; jobs of before have no marks."""
    for name in MARKS:
        op.add_column("jobs", sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false()))
    op.drop_index("ix_jobs_list", "jobs")
    jobs = sa.text("sweep IS NULL")
    op.create_index("ix_jobs_list", "jobs", [*LISTED, *MARKS], sqlite_where=jobs, postgresql_where=jobs)
