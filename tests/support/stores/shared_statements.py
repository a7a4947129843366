"""Databases of tests share compiled statements: a process of tests opens thousands of stores, a service one.

SQLAlchemy compiles a statement once for each engine and its dialect. To compile those that opening a store needs
takes longer than to run them. With `share`, all engines of this process have one dialect of each kind, one cache.
"""

from __future__ import annotations

from typing import Any, Self

from sqlalchemy import Engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

_dialects: dict[Any, Any] = {}
_compiled: dict[Any, Any] = {}


class Shared:
    """A dialect of which equal arguments give the same object."""

    def __new__(cls, **arguments: Any) -> Self:
        return _dialects.setdefault((cls, *arguments.items()), super().__new__(cls))

    def __init__(self, **arguments: Any) -> None:
        if not self.__dict__:
            super().__init__(**arguments)

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        engine.update_execution_options(compiled_cache=_compiled)


class SharedSQLite(Shared, SQLiteDialect_pysqlite):
    supports_statement_cache = True


class SharedPostgreSQL(Shared, PGDialect_psycopg):
    supports_statement_cache = True


def share() -> None:
    """Have all engines that are made from now on share what they compile."""
    registry.register("sqlite", __name__, SharedSQLite.__name__)
    registry.register("postgresql.psycopg", __name__, SharedPostgreSQL.__name__)
