"""Runs again: files of ended jobs are kept for a time, and found by the end and the users of the jobs."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Put the end of the jobs and their users into the index of files."""
    op.drop_index("ix_jobs_bundle", "jobs")
    op.create_index("ix_jobs_bundle", "jobs", ["bundle", "ended", "user"])
