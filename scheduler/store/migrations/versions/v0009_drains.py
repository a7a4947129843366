"""Nodes that an admin has drained."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "drains",
        sa.Column("node", sa.String(255), primary_key=True),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("finish", sa.Boolean, nullable=False),
    )
