"""Workspaces refer to their GPUs by UUID; those of earlier versions get theirs at the next start of the service.

Attempts have UUIDs in their records as well, which need no change of the schema.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("workspaces", sa.Column("uuids", sa.Text, nullable=False, server_default="[]"))
