"""Requests of people for changes that others decide."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "change_requests",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("wanted", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("decided", sa.Double, nullable=True),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("granted", sa.Text, nullable=True),
    )
