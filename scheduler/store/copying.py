"""Copies of an SQLite store, made while a service writes to it, and their check."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from alembic.script import ScriptDirectory

from springtide.scheduler.store import opening
from springtide.scheduler.store.errors import StoreError, StoreTooNewError

VERSION_QUERY = "SELECT version_num FROM alembic_version"


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of an SQLite database into the new file ``target``; a service may be writing to it.

    The copy holds all committed data, including those only in the write-ahead log, and is readable by the owner
    alone. Raises `StoreError`; no file is left then.
    """
    if not source.is_file():
        raise StoreError(f"There is no database {source}.")
    url = opening.parse_url(f"sqlite:///{source}")
    handle = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with closing(_connect(source)) as connection:
            connection.execute("VACUUM INTO ?", (str(target),))
        os.fsync(handle)
    except sqlite3.Error as error:
        target.unlink()
        if opening.is_damaged(error):
            raise opening.damaged(url, str(error)) from error
        raise StoreError(f"{source} cannot be copied: {error}.") from error
    except BaseException:
        target.unlink()
        raise
    finally:
        os.close(handle)


def check_copy(database: Path, *, versioned: bool = True) -> None:
    """Check a copy that nothing else has open.

    Raises `StoreDamagedError` for a damaged file, and for a store (``versioned``) `StoreTooNewError` if its schema
    is newer than this code, `StoreError` if it is no store of Springtide.
    """
    url = opening.parse_url(f"sqlite:///{database}")
    try:
        with closing(_connect(database)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
            if found != ["ok"]:
                raise opening.damaged(url, "; ".join(found))
            if versioned:
                check_revisions(database.name, {str(row[0]) for row in connection.execute(VERSION_QUERY)})
    except sqlite3.OperationalError as error:
        raise StoreError(f"{database.name} is not a store of Springtide: {error}.") from error
    except sqlite3.Error as error:
        raise opening.damaged(url, str(error)) from error


def is_unused(database: Path) -> bool:
    """Return whether a store has no data: no service has begun a pool on it."""
    try:
        with closing(_connect(database)) as connection:
            return not connection.execute("SELECT 1 FROM meta WHERE key = 'next_age'").fetchone()
    except sqlite3.OperationalError as error:
        return "no such table" in str(error)
    except sqlite3.Error:
        return False


def check_revisions(name: str, present: set[str]) -> None:
    """Raise `StoreTooNewError` if one of the schema revisions of the copy ``name`` is unknown to this code."""
    script = ScriptDirectory.from_config(opening.migrations_config())
    newer = present - {revision.revision for revision in script.walk_revisions()}
    if newer:
        raise StoreTooNewError(
            f"{name} was written by a newer Springtide (schema {', '.join(sorted(newer))}, here "
            f"{script.get_current_head()}). Install that version."
        )


def _connect(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout={opening.BUSY_TIMEOUT_MS}")
    return connection
