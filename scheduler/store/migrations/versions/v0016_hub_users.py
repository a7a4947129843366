"""Identities of JupyterHub's users, whatever their names, and the members of its groups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "hub_users",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("identity", sa.String(64), nullable=False),
        sa.Column("standing", sa.String(16), nullable=False),
    )
    op.create_table(
        "hub_groups",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("members", sa.Text, nullable=False),
    )
