"""Project trees: which user has sent which, and those of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table of trees, and the column of jobs; those of before have none."""
    op.create_table(
        "trees",
        sa.Column("user", sa.String(255), primary_key=True),
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_index("ix_trees_digest", "trees", ["digest"])
    op.add_column("jobs", sa.Column("tree", sa.String(64), nullable=True))
    op.create_index("ix_jobs_tree", "jobs", ["tree", "ended", "user"])
