"""Idle workspaces: the rules, and what was told and done about workspaces whose GPUs nobody used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import Connection, and_, delete, insert, or_, select

from springtide.scheduler.store import schema
from springtide.scheduler.store.records import IdleRecord, IdleRule, RuleKey, RuleScope

_rules = schema.idle_rules
_records = schema.idle_workspaces


def rules(connection: Connection) -> dict[RuleKey, IdleRule]:
    """Return all rules."""
    return {
        (RuleScope(row.scope), row.name): IdleRule(row.tell_after, row.notice)
        for row in connection.execute(select(_rules))
    }


def records(connection: Connection) -> tuple[IdleRecord, ...]:
    """Return what was told and done about workspaces."""
    return tuple(IdleRecord(**row) for row in connection.execute(select(_records)).mappings())


def put_rules(connection: Connection, changed: Mapping[RuleKey, IdleRule | None]) -> None:
    """Insert or replace rules; None deletes one."""
    if not changed:
        return
    same = [and_(_rules.c.scope == scope.value, _rules.c.name == name) for scope, name in changed]
    connection.execute(delete(_rules).where(or_(*same)))
    rows = [
        {"scope": scope.value, "name": name, **asdict(rule)}
        for (scope, name), rule in changed.items()
        if rule is not None
    ]
    if rows:
        connection.execute(insert(_rules), rows)


def put_records(connection: Connection, changed: Mapping[tuple[str, str], IdleRecord | None]) -> None:
    """Insert or replace records, by user and server; None deletes one."""
    if not changed:
        return
    same = [and_(_records.c.user == user, _records.c.server == server) for user, server in changed]
    connection.execute(delete(_records).where(or_(*same)))
    rows = [asdict(record) for record in changed.values() if record is not None]
    if rows:
        connection.execute(insert(_records), rows)
