"""Sweeps: which trial of which sweep a job is, its outcome, and the parameters of trials known beforehand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

LISTED = ["user", "project", "state", "name", "gpus", "submitted", "seq", "ended", "id"]


def upgrade() -> None:
    """Add the columns, and the sweep to the index of lists, which leave trials out."""
    op.add_column("jobs", sa.Column("sweep", sa.String(64), nullable=True))
    op.add_column("jobs", sa.Column("trial", sa.Integer, nullable=True))
    op.add_column("jobs", sa.Column("value", sa.Double, nullable=True))
    op.add_column("jobs", sa.Column("pruned", sa.Boolean, nullable=False, server_default=sa.false()))
    op.drop_index("ix_jobs_list", "jobs")
    op.create_index("ix_jobs_list", "jobs", [*LISTED, "sweep"])
    op.create_index("ix_jobs_trial", "jobs", ["sweep", "trial"], unique=True)
    op.create_table(
        "sweep_parameters",
        sa.Column("sweep", sa.String(64), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
