"""Queries of the ledger, for reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, func, literal, select

from springtide.scheduler.store import codec, ledger_writing, schema
from springtide.scheduler.store.ledger import (
    SUMS,
    Accounts,
    EndedFact,
    Group,
    LedgerEntry,
    PoolFact,
    Rollup,
    Sums,
    rolled_up,
)
from springtide.scheduler.store.tables import Tables

MOST_ADDED_UP = 60
"""Maximum number of bounds between which the database adds up; beyond it one query is faster than one for each."""


def accounts(
    connection: Connection,
    step: int,
    bounds: Sequence[int],
    *,
    now: float,
    visible: Callable[[Group], bool] = lambda _: True,
) -> Accounts:
    """Return the sums in intervals of ``step`` seconds, added up between each of the ``bounds`` and the next.

    Only those of groups that are ``visible``. What is not in the stored sums yet is added: recent entries, and
    what is held up to ``now``.
    """
    if connection.dialect.name == "postgresql":  # SQLite reads as of one moment anyway
        connection = connection.execution_options(isolation_level="REPEATABLE READ")
    start, end = bounds[0], bounds[-1]
    recent = [each for each in _recent(connection, now) if visible(each.group)]
    groups = _groups(connection, visible)
    waits = schema.ledger_waits
    sums = [
        Rollup(step, at, groups[group], Sums(*values))
        for at, group, *values in _sums(connection, step, bounds)
        if group in groups
    ]
    waited = connection.execute(
        select(waits.c.at, waits.c.group, waits.c.wait).where(waits.c.at >= start, waits.c.at < end)
    )
    return Accounts(
        sums + [each for each in rolled_up(recent, (step,)) if start <= each.at < end],
        [(at, groups[group], wait) for at, group, wait in waited if group in groups]
        + [
            (int(each.start), each.group, each.wait)
            for each in recent
            if each.wait is not None and start <= each.start < end
        ],
        [each for each in _facts(connection, now) if each.end > start and each.start < end],
    )


def _sums(connection: Connection, step: int, bounds: Sequence[int]) -> Iterator[Sequence[Any]]:
    """Yield begin, group and sums; each is of one interval if there are many bounds."""
    table = schema.ledger_sums
    values = [table.c[name] for name in SUMS]
    if len(bounds) > MOST_ADDED_UP:
        of = select(table.c.at, table.c.group, *values)
        yield from connection.execute(
            of.where(table.c.step == step, table.c.at >= bounds[0], table.c.at < bounds[-1])
        )
        return
    for start, end in pairwise(bounds):
        added = select(literal(start), table.c.group, *map(func.sum, values)).group_by(table.c.group)
        yield from connection.execute(added.where(table.c.step == step, table.c.at >= start, table.c.at < end))


def _recent(connection: Connection, now: float) -> list[LedgerEntry]:
    table = schema.ledger
    summed = ledger_writing.mark(connection, ledger_writing.SUMMED)
    return codec.ledger.read(connection, select(table).where(table.c.id > summed)) + _held(connection, now)


def _held(connection: Connection, now: float) -> list[LedgerEntry]:
    return [each for holding in Tables.holdings.load(connection).values() for each in holding.entries(now)]


def _groups(connection: Connection, visible: Callable[[Group], bool]) -> dict[int, Group]:
    rows = connection.execute(select(schema.ledger_groups))
    return {int(row[0]): group for row in rows if visible(group := Group(*row[1:]))}


def _facts(connection: Connection, now: float) -> list[EndedFact]:
    table = schema.ledger_facts
    ended = codec.ledger_facts.read(connection, select(table).order_by(table.c.id))
    return ended + [_until(each, now) for each in Tables.pool_facts.load(connection).values()]


def _until(fact: PoolFact, now: float) -> EndedFact:
    return EndedFact(0, fact.kind, fact.project, fact.gpu_type, fact.value, fact.since, max(now, fact.since))
