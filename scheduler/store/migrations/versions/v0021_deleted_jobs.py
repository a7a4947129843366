"""Jobs that were deleted: which files of them are still to be removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; no job of before was deleted."""
    op.create_table(
        "deleted_jobs",
        sa.Column("job", sa.String(64), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("ended", sa.Double, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
    )
