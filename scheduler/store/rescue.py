"""Saving a store whose files were removed or replaced while this process has them open."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Engine

from springtide.scheduler.store.errors import StoreMovedError
from springtide.scheduler.store.place import Place

RESCUED = ".rescued-"
"""The infix between the name of a store and the epoch of the saving service, in the name of its saved copy."""


def rescued_copies(database: Path) -> list[Path]:
    """Return the copies of a store saved by services that lost it, oldest first."""
    found = database.parent.glob(f"{database.name}{RESCUED}*")
    return sorted((path for path in found if path.suffix != ".new"), key=lambda path: path.stat().st_mtime)


def rescue(writer: Engine, place: Place, error: StoreMovedError, epoch: int) -> StoreMovedError:
    """Save the committed data; return the error with the steps for an admin.

    The contents of the write-ahead log go into the database, if that is in its place; else the whole store goes
    into a file beside it.
    """
    copy = place.database.with_name(f"{place.database.name}{RESCUED}{epoch}")
    try:
        with closing(writer.raw_connection()) as connection:
            driver = connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            if error.log_only:
                _write_back(driver)
                done = "All that was accepted is in the store; the service starts again."
            else:
                _copy(driver, copy)
                done = (
                    f"All that was accepted is in {copy}. Nothing more is accepted: stop the service, put that "
                    f"file in the place of the store (mv {copy} {place.database}), and start the service again."
                )
    except (sqlite3.Error, OSError) as failed:
        done = f"Accepted changes could not be saved: {failed}. Nothing more is accepted."
        return StoreMovedError(f"{error} {done}", log_only=error.log_only)
    return StoreMovedError(f"{error} {done}", log_only=error.log_only, saved=True)


def _write_back(connection: sqlite3.Connection) -> None:
    """Write what the log holds into the database. Raises `sqlite3.OperationalError` while it is being read."""
    busy, logged, written = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy or logged != written:
        raise sqlite3.OperationalError("the journal is being read")


def _copy(connection: sqlite3.Connection, copy: Path) -> None:
    """Copy the whole store to a new file that only this account may read."""
    beside = copy.with_name(f"{copy.name}.new")
    with suppress(FileNotFoundError):
        beside.unlink()
    file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with closing(sqlite3.connect(beside)) as target:
            connection.backup(target)
        os.fsync(file)
        beside.rename(copy)
    finally:
        os.close(file)
