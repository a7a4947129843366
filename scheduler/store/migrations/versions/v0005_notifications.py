"""Notifications: people's choices of events, and deliveries through channels that leave the pool's pages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "notification_choices",
        sa.Column("user", sa.String(255), primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "deliveries",
        sa.Column("event", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("channel", sa.String(16), primary_key=True),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("notification", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=True),
    )
    op.create_index("ix_deliveries_state", "deliveries", ["state", "user"])
    op.create_index("ix_deliveries_user", "deliveries", ["user", "at"])
