"""The real store on SQLite, with outages and crash points; opening it again costs no new file."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from simulation.faults import CrashPoints
from simulation.virtual_time import CrashedError
from sqlalchemy import Connection

from springtide.scheduler.store import Store, StoreError, StoreUnsureError, opening
from springtide.scheduler.store.bundles import BundleFiles
from springtide.scheduler.store.errors import StoreFullError

P = ParamSpec("P")
T = TypeVar("T")
MEMORY = Path("/dev/shm")


class NoLock(opening.AdvisoryLock):
    """Replaces the lock of a store used by only one test."""

    def __init__(self) -> None:
        """Lock nothing."""

    def release(self) -> None:
        """Release nothing."""


class StoreBed:
    """One SQLite file for many short lives of a pool; ``trouble`` is how it fails now.

    ``away``: no connection; ``full``: nothing can be written; ``silent``: a
    commit works, but the connection breaks before its answer.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trouble = ""
        self._url = opening.parse_url(f"sqlite:///{directory / 'springtide.sqlite'}")
        self._writer, self._reader = opening.connect(self._url)
        opening.migrate(self._writer)
        self._empty = sqlite3.connect(":memory:", check_same_thread=False)
        self.reading(lambda file: file.backup(self._empty))

    def reading(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of a function of the database's file."""
        connection = self._writer.raw_connection()
        try:
            return work(connection.driver_connection)
        finally:
            connection.close()

    def clear(self) -> None:
        """Empty the store."""
        self.trouble = ""
        self.reading(self._empty.backup)

    def open(self, points: CrashPoints) -> SimulatedStore:
        """Open the store as a new owner. Raises `StoreError`."""
        if self.trouble == "away":
            raise StoreError("The database is away.")
        store = SimulatedStore(
            self._url,
            self._writer,
            self._reader,
            NoLock(),
            BundleFiles(self.directory / "bundles"),
        )
        store.bed, store.points = self, points
        return store

    def close(self) -> None:
        """Close all connections."""
        self._empty.close()
        self._writer.dispose()
        self._reader.dispose()


class SimulatedStore(Store):
    """A store that fails as its bed says, and at which the service may crash."""

    bed: StoreBed
    points: CrashPoints
    alive = True

    def write(self, change: Callable[Concatenate[Connection, P], None], *args: P.args, **more: P.kwargs) -> None:
        if not self.alive:
            raise CrashedError
        number = self.points.count("write")
        self.points.reach("write", number, after=False)
        if self.bed.trouble == "away":
            raise StoreError("The database is away.")
        if self.bed.trouble == "full":
            raise StoreFullError("The disk that holds the store is full.")
        super().write(change, *args, **more)
        self.points.reach("write", number, after=True)
        if self.bed.trouble == "silent":
            raise StoreUnsureError("The connection to the database broke during the commit.")

    def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs) -> T:
        if not self.alive:
            raise CrashedError
        if self.bed.trouble == "away":
            raise StoreError("The database is away.")
        return super().read(query, *args, **more)

    def is_committed(self) -> bool:
        if not self.alive:
            raise CrashedError
        if self.bed.trouble in {"away", "silent"}:
            raise StoreError("The database is away.")
        return super().is_committed()


@contextmanager
def store_bed() -> Iterator[StoreBed]:
    """Yield a store in memory-backed storage if there is some."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        bed = StoreBed(Path(directory))
        try:
            yield bed
        finally:
            bed.close()
