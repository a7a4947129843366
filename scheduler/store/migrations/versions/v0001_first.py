"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create everything."""
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "projects",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("age", sa.Integer, nullable=False),
        sa.Column("colour", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("made_group", sa.Boolean, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "people",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("build_quota", sa.Integer, nullable=False),
    )
    _jobs()
    op.create_table(
        "workspaces",
        sa.Column("user", sa.String(255), primary_key=True),
        sa.Column("server", sa.String(255), primary_key=True),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("gpus", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
    )
    _journals()


def _jobs() -> None:
    op.create_table(
        "bundles",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=True),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False, unique=True),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(128), nullable=True),
        sa.Column("bundle", sa.String(64), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("ended", sa.Double, nullable=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
        sa.UniqueConstraint("user", "key", name="uq_jobs_user_key"),
    )
    op.create_index("ix_jobs_ended", "jobs", ["ended"])
    op.create_index("ix_jobs_project_seq", "jobs", ["project", "seq"])
    op.create_index("ix_jobs_user_seq", "jobs", ["user", "seq"])
    op.create_index("ix_jobs_bundle", "jobs", ["bundle"])
    op.create_table(
        "attempts",
        sa.Column("job", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("ended", sa.Double, nullable=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("ix_attempts_ended", "attempts", ["ended"])


def _journals() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("what", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.Column("after", sa.Text, nullable=False),
        sa.Column("undone", sa.Boolean, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("base", sa.BigInteger, nullable=False),
        sa.Column("snapshot", sa.Text, nullable=True),
        sa.Column("changes", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
