"""GPUs that are drained by themselves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "gpu_drains",
        sa.Column("gpu", sa.String(255), primary_key=True),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("finish", sa.Boolean, nullable=False),
    )
