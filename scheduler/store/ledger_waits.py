"""The waits of jobs for their first start: packed in a row for each day, so that a report reads few rows."""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar

from sqlalchemy import Connection, delete, insert, select

from springtide.scheduler.store import schema
from springtide.scheduler.store.ledger import DAY

T = TypeVar("T", int, float)
_table = schema.ledger_waits


@dataclass(frozen=True, slots=True)
class DayWaits:
    """The waits for starts on a ``day``, by its begin; the shortest wait is the first.

    ``groups`` has the number of each job's group, ``seconds`` when it started, after the begin of the day.
    """

    day: int
    groups: array[int] = field(default_factory=lambda: array("I"))
    seconds: array[int] = field(default_factory=lambda: array("I"))
    waits: array[float] = field(default_factory=lambda: array("d"))

    def merged(self, more: Iterable[tuple[int, int, float]]) -> DayWaits:
        """Return the waits with others: group, seconds after the begin of the day, and wait."""
        rows = sorted([*zip(self.groups, self.seconds, self.waits, strict=True), *more], key=itemgetter(2))
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        return DayWaits(self.day, array("I", columns[0]), array("I", columns[1]), array("d", columns[2]))


def read(connection: Connection, start: int, end: int) -> Iterator[DayWaits]:
    """Yield the waits of the days that begin between two times, in their order."""
    query = select(_table).where(_table.c.day >= start, _table.c.day < end).order_by(_table.c.day)
    for day, groups, seconds, waits in connection.execute(query):
        yield DayWaits(day, _unpacked("I", groups), _unpacked("I", seconds), _unpacked("d", waits))


def add(connection: Connection, waits: Iterable[tuple[int, int, float]]) -> None:
    """Add waits: when the job started, in seconds since the epoch, the number of its group, and the wait."""
    by_day: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    for at, group, wait in waits:
        by_day[at // DAY * DAY].append((group, at % DAY, wait))
    for day, added in by_day.items():
        present = next(read(connection, day, day + 1), DayWaits(day))
        whole = present.merged(added)
        connection.execute(delete(_table).where(_table.c.day == day))
        connection.execute(
            insert(_table).values(
                day=day,
                groups=_packed(whole.groups),
                seconds=_packed(whole.seconds),
                waits=_packed(whole.waits),
            )
        )


def _packed(numbers: array[T]) -> bytes:
    """Return numbers as bytes, in the order of little-endian machines."""
    return _little(numbers).tobytes()


def _unpacked(kind: str, packed: bytes) -> array[T]:
    numbers: array[T] = array(kind)
    numbers.frombytes(packed)
    return _little(numbers)


def _little(numbers: array[T]) -> array[T]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
