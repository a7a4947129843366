"""The months whose reports were announced."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; nothing was announced before."""
    op.create_table(
        "monthly_reports",
        sa.Column("month", sa.String(16), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("empty", sa.Boolean, nullable=False),
    )
