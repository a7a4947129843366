"""The recent use of projects: the GPU time that they had beyond their quotas."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, and_, delete, insert, or_, select

from springtide.scheduler.model import RecentUse
from springtide.scheduler.store import schema


def load(connection: Connection) -> tuple[RecentUse, ...]:
    """Return the recent use of all projects."""
    return tuple(RecentUse(*row) for row in connection.execute(select(schema.recent_use)))


def put(connection: Connection, changed: Sequence[RecentUse], dropped: Sequence[str]) -> None:
    """Replace what has changed, and remove that of dropped projects."""
    table = schema.recent_use
    if dropped:
        connection.execute(delete(table).where(table.c.project.in_(list(dropped))))
    kept = [use for use in changed if use.project not in dropped]
    if kept:
        same = [
            and_(table.c.project == use.project, table.c.gpu_type == use.gpu_type, table.c.own == use.own)
            for use in kept
        ]
        connection.execute(delete(table).where(or_(*same)))
        connection.execute(insert(table), [msgspec.structs.asdict(use) for use in kept])
