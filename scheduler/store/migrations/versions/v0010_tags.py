"""Tags of jobs, by which lists are searched."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

LISTED = ["user", "project", "state", "name", "gpus", "submitted", "seq", "ended", "id", "sweep"]


def upgrade() -> None:
    """Add the column, and put it into the index of lists."""
    op.add_column("jobs", sa.Column("tags", sa.Text, nullable=False, server_default=""))
    op.drop_index("ix_jobs_list", "jobs")
    op.create_index("ix_jobs_list", "jobs", [*LISTED, "tags"])
