"""The project of each audit entry, frozen projects, and changes that end by themselves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

audit = sa.table(
    "audit",
    sa.column("what", sa.String),
    sa.column("subject", sa.String),
    sa.column("project", sa.String),
)
jobs = sa.table("jobs", sa.column("id", sa.String), sa.column("project", sa.String))
PROJECT_ENTRIES = ("project", "member", "undo.project", "undo.member")
"""Beginnings of the kinds of entries whose subject is a project."""
LONGEST = 64
"""Maximum length of the name of a project, in characters."""


def upgrade() -> None:
    """Add the column with the projects of earlier entries, and create the tables."""
    with op.batch_alter_table("audit") as batch:
        batch.add_column(sa.Column("project", sa.String(64), nullable=False, server_default=""))
    of_project = sa.or_(*(audit.c.what.like(f"{what}.%") for what in PROJECT_ENTRIES))
    names = audit.update().where(of_project, sa.func.length(audit.c.subject) <= LONGEST)
    op.execute(names.values(project=audit.c.subject))
    of_job = sa.select(jobs.c.project).where(jobs.c.id == audit.c.subject).scalar_subquery()
    known = audit.c.subject.in_(sa.select(jobs.c.id))
    op.execute(audit.update().where(audit.c.what.like("job.%"), known).values(project=of_job))
    op.create_index("ix_audit_project", "audit", ["project", "id"])
    op.create_table(
        "freezes",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("finish", sa.Boolean, nullable=False),
        sa.Column("until", sa.Double, nullable=True),
    )
    for table in ("drains", "gpu_drains"):
        with op.batch_alter_table(table) as batch:
            batch.add_column(sa.Column("until", sa.Double, nullable=True))
    op.create_table(
        "endings",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("subject", sa.String(512), primary_key=True),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("before", sa.Text, nullable=True),
        sa.Column("refused", sa.Text, nullable=False),
        sa.Column("tried", sa.Double, nullable=False),
    )
