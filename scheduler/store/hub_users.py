"""The users and groups of JupyterHub as they were last seen, as rows."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, delete, insert, select

from springtide.scheduler.store import schema
from springtide.scheduler.store.records import HubStanding, HubUser

_users = schema.hub_users
_groups = schema.hub_groups
_members = msgspec.json.Decoder(tuple[str, ...])


def users(connection: Connection) -> tuple[HubUser, ...]:
    """Return the users."""
    rows = connection.execute(select(_users).order_by(_users.c.name))
    return tuple(HubUser(row.name, row.identity, HubStanding(row.standing)) for row in rows)


def groups(connection: Connection) -> dict[str, tuple[str, ...]]:
    """Return the members of projects."""
    return {row.project: _members.decode(row.members) for row in connection.execute(select(_groups))}


def put_users(connection: Connection, changed: Mapping[str, HubUser | None]) -> None:
    """Replace users by name; None removes one."""
    if not changed:
        return
    connection.execute(delete(_users).where(_users.c.name.in_(list(changed))))
    rows = [
        {"name": user.name, "identity": user.identity, "standing": user.standing.value}
        for user in changed.values()
        if user is not None
    ]
    if rows:
        connection.execute(insert(_users), rows)


def put_groups(connection: Connection, changed: Mapping[str, tuple[str, ...]]) -> None:
    """Replace the members of projects."""
    if changed:
        connection.execute(delete(_groups).where(_groups.c.project.in_(list(changed))))
        rows = [{"project": name, "members": msgspec.json.encode(who).decode()} for name, who in changed.items()]
        connection.execute(insert(_groups), rows)
