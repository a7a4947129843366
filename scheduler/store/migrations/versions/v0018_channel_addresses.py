"""Notifications: a choice has an address for each channel that needs one, instead of one of a webhook."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

choices = sa.table("notification_choices", sa.column("user", sa.String), sa.column("body", sa.Text))


def upgrade() -> None:
    """Move the address of each webhook."""
    connection = op.get_bind()
    for user, text in connection.execute(sa.select(choices.c.user, choices.c.body)).all():
        body = json.loads(text)
        webhook = body.pop("webhook", "")
        body["addresses"] = {"webhook": webhook} if webhook else {}
        connection.execute(choices.update().where(choices.c.user == user).values(body=json.dumps(body)))
