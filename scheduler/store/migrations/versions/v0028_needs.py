"""What needs an administrator, and GPUs that were idle while jobs waited."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables; nothing of before is known."""
    op.create_table(
        "needs",
        sa.Column("id", sa.String(512), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("said", sa.Text, nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("gone", sa.Double, nullable=True),
        sa.Column("told", sa.Double, nullable=True),
        sa.Column("told_by", sa.String(255), nullable=False),
        sa.Column("left_until", sa.Double, nullable=True),
        sa.Column("left_by", sa.String(255), nullable=False),
    )
    op.create_table(
        "idle_while_waiting",
        sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("gpu_type", sa.String(128), primary_key=True),
        sa.Column("gpu_seconds", sa.Double, nullable=False),
    )
