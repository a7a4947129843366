"""Measured use of GPUs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of measured use."""
    op.create_table(
        "gpu_usage",
        sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("gpu", sa.String(128), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("job", sa.String(64), primary_key=True),
        sa.Column("user", sa.String(255), primary_key=True),
        sa.Column("server", sa.String(255), primary_key=True),
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("seconds", sa.Integer, nullable=False),
        sa.Column("utilization", sa.Double),
        sa.Column("memory_used", sa.BigInteger),
        sa.Column("memory_peak", sa.BigInteger),
        sa.Column("memory_total", sa.BigInteger),
        sa.Column("power", sa.Double),
        sa.Column("temperature", sa.Integer),
        sa.Column("processes", sa.Integer),
        sa.Column("ecc_corrected", sa.BigInteger),
        sa.Column("ecc_uncorrected", sa.BigInteger),
        sa.Column("xid", sa.BigInteger),
        sa.Column("nvlink_received", sa.Double),
        sa.Column("nvlink_sent", sa.Double),
        sa.Column("pcie_received", sa.Double),
        sa.Column("pcie_sent", sa.Double),
    )
    op.create_index("ix_gpu_usage_job", "gpu_usage", ["job", "step", "at"])
