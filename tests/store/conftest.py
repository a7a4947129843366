"""Stores to test: SQLite in a folder, and PostgreSQL on a real server of Debian's package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgresql_server import new_database, running_server

from springtide.scheduler.store import Store


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server that is stopped in the end."""
    with running_server() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.database)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/springtide.sqlite"
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def open_store(url: str, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens the store; whatever is open in the end is closed."""
    opened: list[Store] = []

    def open_it(**more: float) -> Store:
        store = Store.open(url, tmp_path / "state", **{"lock_wait": 0.0, **more})
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()
