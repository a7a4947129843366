"""Default projects, which people choose for the jobs that name none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "default_projects",
        sa.Column("user", sa.String(255), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
    )
