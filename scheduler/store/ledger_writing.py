"""Sums of the ledger by hour, day and month: entries, kept for a time, and measured use are added once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, case, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from springtide.scheduler.store import codec, ledger_waits, schema
from springtide.scheduler.store.gpu_usage import HOUR
from springtide.scheduler.store.ledger import (
    DAY,
    IDLE_BELOW,
    STEPS,
    SUMS,
    Group,
    LedgerEntry,
    Lot,
    Rollup,
    Sums,
    begin_of,
    rolled_up,
    values_of,
)
from springtide.scheduler.store.tables import Tables

SUMMED = "ledger_summed"
"""Key of the id of the newest entry that is in the sums."""
MEASURED = "ledger_measured"
"""Key of the begin of the newest hour whose measured use is in the sums."""
MOST_ENTRIES = 2_000
"""Maximum number of entries that one transaction adds."""
MOST_HOURS = 24
"""Maximum number of hours whose measured use one transaction adds."""
_INSERTS: Mapping[str, Callable[..., Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_USED_BY = ("kind", "job", "user", "server")
"""The fields of `UsageKey` that name a holder."""


def has_entries(connection: Connection) -> bool:
    """Return whether there are entries that are not in the sums yet."""
    newest = connection.execute(select(func.max(schema.ledger.c.id))).scalar()
    return newest is not None and newest > mark(connection, SUMMED)


def has_use(connection: Connection) -> bool:
    """Return whether there are hours whose measured use is not in the sums yet."""
    table = schema.gpu_usage
    newest = connection.execute(select(func.max(table.c.at)).where(table.c.step == HOUR)).scalar()
    return newest is not None and newest > mark(connection, MEASURED)


def add_entries(connection: Connection) -> None:
    """Add the next entries to the sums."""
    table, done = schema.ledger, mark(connection, SUMMED)
    entries = codec.ledger.read(
        connection, select(table).where(table.c.id > done).order_by(table.c.id).limit(MOST_ENTRIES)
    )
    if entries:
        rollups = rolled_up(entries)
        numbers = _add(connection, rollups)
        _add_lots(connection, rollups)
        waits = [(int(each.start), numbers[each.group], each.wait) for each in entries if each.wait is not None]
        ledger_waits.add(connection, waits)
        _set_mark(connection, SUMMED, entries[-1].id)


def add_use(connection: Connection) -> None:
    """Add the measured use of the next hours to the sums."""
    table, done = schema.gpu_usage, mark(connection, MEASURED)
    hours = select(table.c.at).where(table.c.step == HOUR, table.c.at > done).distinct()
    found = [int(at) for at in connection.execute(hours.order_by(table.c.at).limit(MOST_HOURS)).scalars()]
    for hour in found:
        _add(connection, _use_of(connection, hour))
    if found:
        _set_mark(connection, MEASURED, found[-1])


def prune(connection: Connection, before: float) -> None:
    """Delete entries that are in the sums and ended before ``before``, but never the newest entry."""
    table = schema.ledger
    newest = connection.execute(select(func.max(table.c.id))).scalar() or 0
    summed = min(mark(connection, SUMMED), newest - 1)
    connection.execute(delete(table).where(table.c.end < before, table.c.id <= summed))


def mark(connection: Connection, key: str) -> int:
    """Return how far the sums are: `SUMMED` or `MEASURED`; 0 before the first."""
    return int(connection.execute(select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar() or 0)


def _set_mark(connection: Connection, key: str, value: int) -> None:
    if not connection.execute(update(schema.meta).where(schema.meta.c.key == key).values(value=value)).rowcount:
        connection.execute(insert(schema.meta).values(key=key, value=value))


def _use_of(connection: Connection, hour: int) -> list[Rollup]:
    """Return the measured use of one hour of those whom the ledger knows."""
    table, groups = schema.gpu_usage, _groups_during(connection, hour, hour + HOUR)
    known = table.c.utilization.is_not(None)
    wanted = select(
        *(table.c[name] for name in _USED_BY),
        func.sum(case((known, table.c.seconds), else_=0)).label("measured"),
        func.sum(func.coalesce(table.c.utilization, 0.0) * table.c.seconds).label("used"),
        func.sum(case((table.c.utilization < IDLE_BELOW, table.c.seconds), else_=0)).label("idle"),
    ).where(table.c.step == HOUR, table.c.at == hour, table.c.kind.in_(("job", "workspace")))
    total: dict[Group, Sums] = {}
    for row in connection.execute(wanted.group_by(*(table.c[name] for name in _USED_BY))):
        group = groups.get((row.job, "", "") if row.kind == "job" else ("", row.user, row.server))
        if group is not None and row.measured:
            sums = Sums(measured=float(row.measured), used=float(row.used), idle=float(row.idle))
            total.setdefault(group, Sums()).add(sums)
    return [Rollup(step, begin_of(step, hour), group, sums) for group, sums in total.items() for step in STEPS]


def _groups_during(connection: Connection, start: int, end: int) -> dict[tuple[str, str, str], Group]:
    """Return the group of each job, and of each workspace by user and server, that held GPUs in a span."""
    table = schema.ledger
    ended = codec.ledger.read(
        connection, select(table).where(table.c.end > start, table.c.start < end).order_by(table.c.id)
    )
    live = [each for holding in Tables.holdings.load(connection).values() for each in holding.entries(float(end))]
    return {_holder(each): each.group for each in (*ended, *live)}


def _holder(entry: LedgerEntry) -> tuple[str, str, str]:
    return (entry.job, "", "") if entry.job else ("", entry.user, entry.server)


def _add(connection: Connection, rollups: Sequence[Rollup]) -> Mapping[Group, int]:
    """Add to the sums that are there; return the numbers of groups."""
    numbers = _numbers(connection, list(dict.fromkeys(each.group for each in rollups)))
    rows = [
        {"step": each.step, "at": each.at, "group": numbers[each.group], **_columns(each.sums)} for each in rollups
    ]
    _upsert(connection, schema.ledger_sums, ("step", "at", "group"), SUMS, rows)
    _add_people(connection, rollups, numbers)
    return numbers


def _add_people(connection: Connection, rollups: Sequence[Rollup], numbers: Mapping[Group, int]) -> None:
    """Add to the sums by day of each person in each project."""
    first: dict[tuple[str, str], int] = {}
    for group, number in numbers.items():
        first.setdefault((group.project, group.user), number)
    found: defaultdict[tuple[int, int], Sums] = defaultdict(Sums)
    for each in rollups:
        if each.step == DAY:
            found[each.at, first[each.group.project, each.group.user]].add(each.sums)
    rows = [{"at": at, "group": number, **_columns(sums)} for (at, number), sums in found.items()]
    _upsert(connection, schema.ledger_people, ("at", "group"), SUMS, rows)


def _add_lots(connection: Connection, rollups: Sequence[Rollup]) -> None:
    """Add to the sums by day of projects and GPU types."""
    found: defaultdict[Lot, Sums] = defaultdict(Sums)
    for each in rollups:
        if each.step == DAY and each.group.project:
            found[each.at, each.group.project, each.group.gpu_type].add(each.sums)
    rows = [
        {"day": day, "project": project, "gpu_type": gpu_type, "held": sums.held, "borrowed": sums.borrowed}
        for (day, project, gpu_type), sums in found.items()
    ]
    _upsert(connection, schema.ledger_lots, ("day", "project", "gpu_type"), ("held", "borrowed"), rows)


def _upsert(
    connection: Connection,
    table: Table,
    key: Sequence[str],
    added: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Insert rows; the ``added`` columns of one with a key that is there are added to it."""
    if rows:
        statement = _INSERTS[connection.dialect.name](table)
        more = {name: table.c[name] + statement.excluded[name] for name in added}
        connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=more), rows)


def _columns(sums: Sums) -> dict[str, float]:
    return dict(zip(SUMS, values_of(sums), strict=True))


def _numbers(connection: Connection, groups: Sequence[Group]) -> Mapping[Group, int]:
    """Return the number of each group; new ones get one."""
    table = schema.ledger_groups
    known = {Group(*row[1:]): int(row[0]) for row in connection.execute(select(table))}
    new = [group for group in groups if group not in known]
    first = max(known.values(), default=0) + 1
    if new:
        rows = [{"id": first + at, **group._asdict()} for at, group in enumerate(new)]
        connection.execute(insert(table), rows)
    return known | {group: first + at for at, group in enumerate(new)}
