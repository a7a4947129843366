"""Records as rows: each column holds a field of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import attrgetter
from types import NoneType
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec
from sqlalchemy import Connection, Select, Table, Text, insert

V = TypeVar("V")


class _Column(NamedTuple):
    """A column: how its value is read from a record and encoded, and which field it fills, decoded."""

    name: str
    value: Callable[[Any], Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    field: str | None


class Rows(Generic[V]):
    """Records of a class in an SQL table.

    A column holds the field of its name, or the one at its path in ``fields``, such as ``key.gpu``. Text columns
    hold text, bytes, or JSON of any other type; None is NULL where that is allowed. The column ``body`` holds the
    whole record as JSON.
    """

    def __init__(
        self, sql: Table, record: type[V], *, fields: Mapping[str, str] | None = None, body: str | None = None
    ) -> None:
        self.sql = sql
        self._record = record
        self._body = body
        self._columns = []
        types, fields = get_type_hints(record), fields or {}
        for column in sql.columns:
            name = str(column.name)
            path = fields.get(name, name)
            value = _itself if name == body else attrgetter(path)
            encode, decode = _codec(types.get(path)) if isinstance(column.type, Text) else (plain, _itself)
            if column.nullable:
                encode, decode = _unless_none(encode), _unless_none(decode)
            whole = path.partition(".")[0]
            filled = path in types or (whole in types and whole not in sql.columns)
            self._columns.append(_Column(name, value, encode, decode, path if filled else None))

    def insert(self, connection: Connection, records: Iterable[V]) -> None:
        """Insert records."""
        rows = [{column.name: column.encode(column.value(each)) for column in self._columns} for each in records]
        if rows:
            connection.execute(insert(self.sql), rows)

    def read(self, connection: Connection, query: Select[Any]) -> list[V]:
        """Return the records of a query's rows."""
        return [self._of(row) for row in connection.execute(query).mappings()]

    def _of(self, row: Mapping[Any, Any]) -> V:
        if self._body is not None:
            return msgspec.json.decode(row[self._body], type=self._record)
        values: dict[str, Any] = {}
        for column in self._columns:
            if column.field is not None:
                whole, _, part = column.field.rpartition(".")
                (values.setdefault(whole, {}) if whole else values)[part] = column.decode(row[column.name])
        return msgspec.convert(values, self._record)


def as_json(value: object) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()


def _codec(kind: object) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return how values of a type are encoded as text and decoded."""
    types = {*(get_args(kind) or (kind,))} - {NoneType}
    if types == {str}:
        return plain, _itself
    if types == {bytes}:
        return bytes.decode, str.encode
    return as_json, msgspec.json.decode


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def plain(value: Any) -> Any:
    """Return a value as the database takes it."""
    return value.value if isinstance(value, Enum) else value


def _itself(value: Any) -> Any:
    return value
