"""Default projects, which people choose for the jobs that name none, and GPUs that are drained one by one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "default_projects",
        sa.Column("user", sa.String(255), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
    )
    op.create_table(
        "gpu_drains",
        sa.Column("gpu", sa.String(255), primary_key=True),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("finish", sa.Boolean, nullable=False),
    )
