"""Presets of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "presets",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("about", sa.Text, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
