"""Stores to test: SQLite in a folder, and PostgreSQL on a real server of Debian's package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from servers.postgresql_server import new_database, running_server
from stores.new_store import sqlite_url

from springtide.scheduler.store import Store, opening


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server, stopped in the end."""
    with running_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_store(postgres: str) -> str:
    """The URL of a store in which nothing is, to make others from."""
    url = new_database(postgres)
    writer, _ = opening.connect(opening.parse_url(url))
    opening.migrate(writer)
    writer.dispose()
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.database)])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of database."""
    return request.param


@pytest.fixture
def empty(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/empty.sqlite"
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store in which nothing is."""
    if kind == "sqlite":
        return sqlite_url(tmp_path)
    return new_database(request.getfixturevalue("postgres"), request.getfixturevalue("postgres_store"))


@pytest.fixture
def open_store(url: str, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens the store, or the one at a URL; whatever is open in the end is closed."""
    opened: list[Store] = []

    def open_it(at: str = url, **more: float) -> Store:
        store = Store.open(at, tmp_path / "state", **{"lock_wait": 0.0, **more})
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()
