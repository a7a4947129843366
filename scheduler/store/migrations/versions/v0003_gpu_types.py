"""GPU types: those that the pool knows, build quotas by type, and the type of each workspace's GPUs.

Numbers of projects are in ``projects.body``, where a plain number and a table by type are both valid: plain
numbers stay as they are, and belong to the only type of the pool.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of types, and change people and workspaces."""
    op.create_table(
        "gpu_types",
        sa.Column("environment", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
    )
    op.add_column("workspaces", sa.Column("gpu_type", sa.String(128), nullable=False, server_default=""))
    _build_quotas_as_json()


def _build_quotas_as_json() -> None:
    """Make ``people.build_quota`` JSON; SQLite cannot change the type of a column in place."""
    connection = op.get_bind()
    before = sa.table("people", sa.column("name", sa.String), sa.column("build_quota", sa.Integer))
    people = [(row.name, row.build_quota) for row in connection.execute(sa.select(before))]
    op.drop_table("people")
    after = op.create_table(
        "people",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("build_quota", sa.Text, nullable=False),
    )
    if people:
        op.bulk_insert(after, [{"name": name, "build_quota": json.dumps(quota)} for name, quota in people])
