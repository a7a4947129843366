"""Bookings: nodes and GPUs set apart from a start to an end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and add to drains the booking that they belong to."""
    with op.batch_alter_table("drains") as batch:
        batch.add_column(sa.Column("booking", sa.Integer, nullable=True))
    op.create_table(
        "bookings",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("start", sa.Double, nullable=False),
        sa.Column("end", sa.Double, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("nodes", sa.Text, nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("gpus", sa.Text, nullable=True),
        sa.Column("lends", sa.Text, nullable=False),
        sa.Column("begun", sa.Boolean, nullable=False),
        sa.Column("repeats", sa.Text, nullable=True),
    )
