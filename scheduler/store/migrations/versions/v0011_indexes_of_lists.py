"""Indexes of lists without the trials of sweeps, which are in none; and one in the order of submission."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

LISTED = ["user", "project", "state", "name", "gpus", "submitted", "seq", "ended", "id", "sweep", "tags"]


def upgrade() -> None:
    """Make the indexes anew."""
    jobs, trials = sa.text("sweep IS NULL"), sa.text("sweep IS NOT NULL")
    for name in ("ix_jobs_list", "ix_jobs_trial"):
        op.drop_index(name, "jobs")
    op.create_index("ix_jobs_list", "jobs", LISTED, sqlite_where=jobs, postgresql_where=jobs)
    op.create_index("ix_jobs_newest", "jobs", ["seq"], sqlite_where=jobs, postgresql_where=jobs)
    trial = ["sweep", "trial"]
    op.create_index("ix_jobs_trial", "jobs", trial, unique=True, sqlite_where=trials, postgresql_where=trials)
