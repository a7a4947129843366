"""Ranges of what the jobs of a project may ask for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give every project the default ranges."""
    op.add_column("projects", sa.Column("ranges", sa.Text, nullable=False, server_default="{}"))
