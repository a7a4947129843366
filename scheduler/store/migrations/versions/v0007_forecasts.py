"""Forecasts of starts that were shown."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "forecasts",
        sa.Column("job", sa.String(64), primary_key=True),
        sa.Column("at", sa.Double, primary_key=True),
        sa.Column("earliest", sa.Double, nullable=True),
        sa.Column("likely", sa.Double, nullable=False),
        sa.Column("latest", sa.Double, nullable=True),
    )
    op.create_index("ix_forecasts_at", "forecasts", ["at"])
