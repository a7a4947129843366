"""Notifications: a success soon after the submission is an event of its own; whoever chose ends gets both."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

choices = sa.table("notification_choices", sa.column("user", sa.String), sa.column("body", sa.Text))


def upgrade() -> None:
    """Add the new event to the channels for which ends were chosen."""
    connection = op.get_bind()
    for user, text in connection.execute(sa.select(choices.c.user, choices.c.body)).all():
        body = json.loads(text)
        for channel, events in body.get("events", {}).items():
            if "ended" in events and "succeeded-soon" not in events:
                body["events"][channel] = [*events, "succeeded-soon"]
        connection.execute(choices.update().where(choices.c.user == user).values(body=json.dumps(body)))
