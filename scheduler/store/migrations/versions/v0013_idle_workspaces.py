"""Idle workspaces: the rules, notifications and stops; people who chose notifications get theirs, too."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

EVENT = "workspace"


def upgrade() -> None:
    """Create the tables, and add the new event for people who chose any."""
    op.create_table(
        "idle_rules",
        sa.Column("scope", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("tell_after", sa.Double, nullable=True),
        sa.Column("notice", sa.Double, nullable=True),
    )
    op.create_table(
        "idle_workspaces",
        sa.Column("user", sa.String(255), primary_key=True),
        sa.Column("server", sa.String(255), primary_key=True),
        sa.Column("reserved", sa.Double, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("told", sa.Double, nullable=True),
        sa.Column("stops", sa.Double, nullable=True),
        sa.Column("kept", sa.Double, nullable=True),
        sa.Column("stopping", sa.Double, nullable=True),
        sa.Column("stopped", sa.Double, nullable=True),
        sa.Column("unused", sa.Double, nullable=False),
    )
    _tell_of_workspaces()


def _tell_of_workspaces() -> None:
    choices = sa.table("notification_choices", sa.column("user", sa.String), sa.column("body", sa.Text))
    connection = op.get_bind()
    for user, body in connection.execute(sa.select(choices)).all():
        chosen = json.loads(body)
        for events in chosen.get("events", {}).values():
            if events and EVENT not in events:
                events.append(EVENT)
        changed = sa.update(choices).where(choices.c.user == user).values(body=json.dumps(chosen))
        connection.execute(changed)
