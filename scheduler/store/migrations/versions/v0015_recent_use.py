"""Recent use: the GPU time of projects beyond their quotas, which decides between otherwise equal projects."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, empty."""
    op.create_table(
        "recent_use",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("gpu_type", sa.String(128), primary_key=True),
        sa.Column("own", sa.Boolean, primary_key=True),
        sa.Column("gpu_seconds", sa.Double, nullable=False),
        sa.Column("borrowed", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
