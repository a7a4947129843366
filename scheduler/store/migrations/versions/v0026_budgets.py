"""Budgets of projects, who leads each project, and the project that a job was moved from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and add the columns."""
    op.create_table(
        "budgets",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("amount", sa.Double, nullable=False),
        sa.Column("unit", sa.String(16), nullable=False),
        sa.Column("beyond", sa.String(16), nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("month", sa.String(16), nullable=False),
        sa.Column("gpu_hours", sa.Double, nullable=False),
        sa.Column("cost", sa.Double, nullable=False),
        sa.Column("told", sa.Integer, nullable=False),
    )
    with op.batch_alter_table("audit") as batch:
        batch.add_column(sa.Column("other_project", sa.String(64), nullable=False, server_default=""))
    with op.batch_alter_table("hub_groups") as batch:
        batch.add_column(sa.Column("leads", sa.Text, nullable=False, server_default="[]"))
