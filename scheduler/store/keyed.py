"""Keyed state: tables of records by key, and an overlay with the changes of a transaction."""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import replace
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Generic, Protocol, TypeVar, get_args, get_type_hints, overload

import sqlalchemy
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    Integer,
    String,
    Text,
    and_,
    bindparam,
    delete,
    select,
)
from sqlalchemy.types import TypeEngine

from springtide.scheduler.store import schema
from springtide.scheduler.store.rows import Rows, plain

LONGEST_WORD: Final = 16
"""Maximum length of the value of an enumeration."""
LENGTHS: Final = {
    **dict.fromkeys(("by", "gpu", "left_by", "name", "node", "server", "told_by", "user"), 255),
    **dict.fromkeys(("identity", "job", "project"), 64),
    **dict.fromkeys(("id", "subject"), 512),
    **dict.fromkeys(("kind", "month"), LONGEST_WORD),
    "gpu_type": 128,
}
"""Maximum lengths of texts in keyed state by the name of their field; those of other fields have none."""
NUMBERS: Final[Mapping[Any, type[TypeEngine[Any]]]] = {bool: Boolean, int: Integer, float: Double}

K = TypeVar("K")
V = TypeVar("V")


class Table(Rows[V], Generic[K, V]):
    """One kind of keyed state: records of a class by the primary key of an SQL table; see `Rows`.

    Its columns are the fields of the record, see `columns_of`, unless ``columns`` are given. ``key`` are the names
    of the key's fields, ``defaults`` the values of columns in rows older than these, ``lengths`` those of texts
    that differ from `LENGTHS`.

    ``order`` is the path of the field by which records are sorted. A table ``by_person`` has names of people as
    keys; its records follow renamed people. Changes of an ``urgent`` table call for a commit; those of another are
    written if something else of their transaction calls for one.

    As an attribute of a class, a table is a descriptor: it returns its part of the ``records`` of an instance.
    """

    def __init__(
        self,
        name: str,
        record: type[V],
        *columns: Column[Any],
        key: Sequence[str] = (),
        defaults: Mapping[str, str] | None = None,
        lengths: Mapping[str, int] | None = None,
        fields: Mapping[str, str] | None = None,
        body: str | None = None,
        order: str | None = None,
        by_person: bool = False,
        urgent: bool = True,
    ) -> None:
        made = columns or columns_of(record, key, defaults or {}, {**LENGTHS, **(lengths or {})})
        super().__init__(sqlalchemy.Table(name, schema.metadata, *made), record, fields=fields, body=body)
        self.by_person = by_person
        self.urgent = urgent
        self._rank: Any = None if order is None else attrgetter(order)
        self._keys = [str(column.name) for column in self.sql.primary_key]
        self._key: Any = attrgetter(*self._keys)
        same = (self.sql.c[name] == bindparam(f"old_{name}") for name in self._keys)
        self._delete = delete(self.sql).where(and_(*same))

    @overload
    def __get__(self, holder: None, owner: type) -> Table[K, V]: ...

    @overload
    def __get__(self, holder: Changing, owner: type) -> Overlay[K, V]: ...

    @overload
    def __get__(self, holder: Committed, owner: type) -> Mapping[K, V]: ...

    def __get__(self, holder: Any, owner: type) -> Any:
        return self if holder is None else holder.records[self]

    def key(self, record: V) -> K:
        """Return the key of a record."""
        key: K = self._key(record)
        return key

    def by_key(self, records: Iterable[V]) -> dict[K, V]:
        """Return records by key, in the order of the table."""
        return self.in_order({self.key(record): record for record in records})

    def in_order(self, records: dict[K, V]) -> dict[K, V]:
        """Return records in the order of the table."""
        if self._rank is None:
            return records
        return dict(sorted(records.items(), key=lambda item: self._rank(item[1])))

    def load(self, connection: Connection) -> dict[K, V]:
        """Return all records by key."""
        return self.by_key(self.read(connection, select(self.sql).order_by(*self.sql.primary_key)))

    def save(self, connection: Connection, changes: Mapping[K, V | None]) -> None:
        """Insert or replace records; None deletes one."""
        if changes:
            connection.execute(self._delete, [self._old(key) for key in changes])
            self.insert(connection, (record for record in changes.values() if record is not None))

    def _old(self, key: K) -> dict[str, Any]:
        values: Any = key if len(self._keys) > 1 else (key,)
        return {f"old_{name}": plain(value) for name, value in zip(self._keys, values, strict=True)}


def columns_of(
    record: type, key: Collection[str], defaults: Mapping[str, str], lengths: Mapping[str, int]
) -> list[Column[Any]]:
    """Return a column for each field of a record, by its type; all that is no number or text is JSON.

    ``lengths`` are the maximum lengths of texts by the name of the field.
    """
    types = {name: _column_type(hint, lengths.get(name)) for name, hint in get_type_hints(record).items()}
    return [
        Column(
            name,
            column_type,
            primary_key=name in key,
            nullable=nullable and name not in key,
            server_default=defaults.get(name),
            autoincrement=False,
        )
        for name, (column_type, nullable) in types.items()
    ]


def _column_type(hint: Any, length: int | None) -> tuple[TypeEngine[Any], bool]:
    """Return the type of a field's column, and whether it may be NULL."""
    types = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    nullable = NoneType in types or hint is Any
    kind, *others = (each for each in types if each is not NoneType)
    if others or not isinstance(kind, type):
        return Text(), nullable
    if kind in NUMBERS:
        return NUMBERS[kind](), nullable
    if issubclass(kind, Enum):
        return String(LONGEST_WORD), nullable
    return String(length) if kind is str and length is not None else Text(), nullable


class Overlay(Mapping[K, V]):
    """The records of a table after the changes of a transaction; None in ``changes`` is a removed record.

    ``version`` counts the changes.
    """

    __slots__ = ("_before", "changes", "table", "version")

    def __init__(self, table: Table[K, V], before: Mapping[K, V]) -> None:
        self.table = table
        self.changes: dict[K, V | None] = {}
        self.version = 0
        self._before = before

    def put(self, record: V) -> None:
        """Insert or replace a record."""
        self.version += 1
        self.changes[self.table.key(record)] = record

    def remove(self, key: K) -> None:
        """Remove a record, if there is one."""
        if key in self:
            self.version += 1
            self.changes[key] = None

    def rename(self, old: K, new: K) -> None:
        """Give the record of a person to another name, whose own record is removed."""
        record: Any = self.get(old)
        self.remove(new)
        if record is not None:
            (name,) = self.table.sql.primary_key
            self.remove(old)
            self.put(replace(record, **{name.name: new}))

    def after(self) -> Mapping[K, V]:
        """Return the records after the changes by key, in the order of the table."""
        if not self.changes:
            return self._before
        merged = {**self._before, **self.changes}
        return self.table.in_order({key: record for key, record in merged.items() if record is not None})

    def copy(self) -> Overlay[K, V]:
        """Return an overlay with the changes so far."""
        copied = Overlay(self.table, self._before)
        copied.changes, copied.version = self.changes.copy(), self.version
        return copied

    def __getitem__(self, key: K) -> V:
        record = self.changes[key] if key in self.changes else self._before[key]
        if record is None:
            raise KeyError(key)
        return record

    def __iter__(self) -> Iterator[K]:
        return iter(self.after())

    def __len__(self) -> int:
        return len(self.after())

    def items(self) -> ItemsView[K, V]:
        """Return keys and records."""
        return self.after().items()

    def values(self) -> ValuesView[V]:
        """Return the records."""
        return self.after().values()


class Overlays(dict[Table[Any, Any], Overlay[Any, Any]]):
    """The overlays of a transaction by table, each made when it is first used."""

    def __init__(self, before: Mapping[Table[Any, Any], Mapping[Any, Any]]) -> None:
        self._before = before

    def __missing__(self, table: Table[Any, Any]) -> Overlay[Any, Any]:
        self[table] = overlay = Overlay(table, self._before[table])
        return overlay

    def copy(self) -> Overlays:
        """Return overlays with the changes so far."""
        copied = Overlays(self._before)
        copied.update({table: overlay.copy() for table, overlay in self.items()})
        return copied

    def changed(self) -> list[Overlay[Any, Any]]:
        """Return the overlays that have changes."""
        return [overlay for overlay in self.values() if overlay.changes]


class Committed(Protocol):
    """Holds the committed records of tables."""

    @property
    def records(self) -> Mapping[Table[Any, Any], Mapping[Any, Any]]:
        """The records by table."""


class Changing(Protocol):
    """Holds records of tables that may be changed."""

    @property
    def records(self) -> Overlays:
        """The overlays by table."""
