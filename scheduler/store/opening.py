"""Opening of a store: connections, the lock against a second service, migrations, the epoch."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select, text, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from springtide.scheduler.own_files import keep_from_others, try_lock
from springtide.scheduler.store import schema, tables  # noqa: F401 - those of keyed state belong to the schema
from springtide.scheduler.store.errors import (
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreTooNewError,
    StoreUnsureError,
)
from springtide.scheduler.wording import LONG_GIVEN, given

log = logging.getLogger(__name__)

ADVISORY_LOCK = 0x5350_5249_4E47  # "SPRING"
"""Key of PostgreSQL's advisory lock, the same for every service of a database."""
LOCK_RETRY = 0.05
"""Interval between two attempts to lock, in seconds."""
BUSY_TIMEOUT_MS = 10_000
"""Time that SQLite waits for another connection, in milliseconds."""
LOCK_SUFFIX = ".lock"
MAX_CHECKED_BYTES = 64 * 1024 * 1024
"""Maximum size of an SQLite database that is checked for damage when it is opened, in bytes."""
MIGRATIONS = Path(__file__).parent / "migrations"


def parse_url(url: str) -> URL:
    """Return the store's URL with its driver.

    Raises `StoreError` for a URL that is neither SQLite nor PostgreSQL.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreError(
            f"The store's URL {given(url, LONG_GIVEN)} is not a database URL, such as sqlite:////srv/pool.sqlite."
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreError("The store's URL names no file; an SQLite store must be on disk.")
        return parsed
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreError(f"The store can be SQLite or PostgreSQL, not {given(backend)}.")


def connect(url: URL) -> tuple[Engine, Engine]:
    """Return the engines of the writer and of the readers."""
    if url.get_backend_name() != "sqlite":
        engine = create_engine(url, pool_pre_ping=True, pool_size=5)
        return engine, engine
    writer = create_engine(url, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False})
    reader = create_engine(url, pool_size=2, connect_args={"check_same_thread": False})
    for engine, begin, query_only in ((writer, "BEGIN IMMEDIATE", False), (reader, "BEGIN", True)):
        _prepare_sqlite(engine, begin, query_only=query_only)
    return writer, reader


def make_private(database: Path) -> None:
    """Make the file of an SQLite store if there is none, and take all rights on it from other accounts.

    SQLite gives its own files beside it the same rights. Raises `StoreError` if the file cannot be written.
    """
    try:
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"The store {database} cannot be written: {error.strerror}.") from error
    for suffix in ("", "-wal", "-shm", "-journal", LOCK_SUFFIX):
        path = database.with_name(database.name + suffix)
        try:
            keep_from_others(path)
        except OSError as error:
            log.warning("Other accounts may read %s, and that cannot be changed: %s", path, error.strerror)


def _prepare_sqlite(engine: Engine, begin: str, *, query_only: bool) -> None:
    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        if query_only:
            connection.execute("PRAGMA query_only=ON")

    def do_begin(connection: Any) -> None:
        connection.execute(begin)

    event.listen(engine, "connect", on_connect)
    # No listener to "begin": an engine with listeners prepares the events of every statement, a tenth of a commit.
    engine.dialect.do_begin = do_begin  # type: ignore[assignment, method-assign]


class FileLock:
    """An exclusive lock on a file beside the database; held until released or the process ends."""

    def __init__(self, path: Path, wait: float) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreError(f"The lock {path} cannot be written: {error.strerror}.") from error
        try:
            _retry(lambda: try_lock(self._fd), wait, str(path))
            with suppress(OSError):  # the number is for people; a disk may be full
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(self._fd)
            raise

    def release(self) -> None:
        """Release the lock."""
        os.close(self._fd)


class AdvisoryLock:
    """A session lock of PostgreSQL, on a separate connection."""

    def __init__(self, engine: Engine, wait: float) -> None:
        self._connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            _retry(self._try, wait, engine.url.render_as_string(hide_password=True))
        except BaseException:
            self._connection.close()
            raise

    def _try(self) -> bool:
        return bool(
            self._connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": ADVISORY_LOCK}).scalar()
        )

    def release(self) -> None:
        """Release the lock."""
        self._connection.invalidate()
        self._connection.close()


def _retry(attempt: Callable[[], bool], wait: float, what: str) -> None:
    until = time.monotonic() + wait
    while not attempt():
        if time.monotonic() >= until:
            raise StoreLockedError(
                f"Another Springtide service is using the store {what}. Stop that one first, or give this one a "
                "state directory or database of its own."
            )
        time.sleep(LOCK_RETRY)


def lock(url: URL, writer: Engine, wait: float) -> FileLock | AdvisoryLock:
    """Lock the store against other services, waiting up to ``wait`` seconds for one that is stopping.

    Raises `StoreLockedError`.
    """
    if url.get_backend_name() == "sqlite":
        return FileLock(Path(f"{url.database}{LOCK_SUFFIX}"), wait)
    return AdvisoryLock(writer, wait)


def migrate(writer: Engine) -> None:
    """Bring the schema up to this version's, in one transaction; a database without tables gets it in one step.

    Raises `StoreTooNewError` for a newer one.
    """
    with translated(writer.url), writer.begin() as connection:
        if _is_current(connection):
            return
        if inspect(connection).get_table_names():
            config = migrations_config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        else:
            schema.metadata.create_all(connection)
            MigrationContext.configure(connection).stamp(_script(), "head")


def check_schema(reader: Engine) -> None:
    """Raise `StoreTooNewError` for a newer schema than this version's, and `StoreError` for an older one."""
    with translated(reader.url), reader.connect() as connection:
        if not _is_current(connection):
            raise StoreError(
                f"The store {_where(connection)} was written by an older Springtide, or is empty. Start the "
                "service of this version on it once, which brings it up to date."
            )


def migrations_config() -> Config:
    """Return Alembic's configuration of the store's migrations."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config


@cache
def _script() -> ScriptDirectory:
    return ScriptDirectory.from_config(migrations_config())


def _is_current(connection: Connection) -> bool:
    """Return whether the schema is this version's; raise `StoreTooNewError` for a newer one."""
    script = _script()
    present = set(MigrationContext.configure(connection).get_current_heads())
    if present == set(script.get_heads()):
        return True
    known = {revision.revision for revision in script.walk_revisions()}
    if present - known:
        raise StoreTooNewError(
            f"The store {_where(connection)} was written by a newer Springtide "
            f"(schema {', '.join(sorted(present - known))}, here {script.get_current_head()}). "
            "Install that version again, or restore a copy of the store from before it."
        )
    return False


def _where(connection: Connection) -> str:
    return connection.engine.url.render_as_string(hide_password=True)


def raise_epoch(writer: Engine, above: int = 0) -> int:
    """Raise the epoch above its value and ``above``, and return it. Later writes of former owners are refused."""
    with translated(writer.url), writer.begin() as connection:
        found = connection.execute(
            select(schema.meta.c.value).where(schema.meta.c.key == "epoch").with_for_update()
        ).scalar()
        if found is None:
            connection.execute(insert(schema.meta).values(key="epoch", value=above + 1))
            return above + 1
        epoch = max(int(found), above) + 1
        connection.execute(update(schema.meta).where(schema.meta.c.key == "epoch").values(value=epoch))
        return epoch


def touch(connection: Connection, epoch: int) -> None:
    """Write the epoch that is there already."""
    connection.execute(update(schema.meta).where(schema.meta.c.key == "epoch").values(value=epoch))


@contextmanager
def translated(database: URL) -> Iterator[None]:
    """Raise errors of a database as `StoreError`, `StoreFullError` or `StoreDamagedError`."""
    try:
        yield
    except DBAPIError as error:
        if is_full(error.orig) or (is_input_output(error.orig) and _has_no_room(database)):
            raise StoreFullError(f"The disk that holds the store {_named(database)} is full.") from error
        if is_damaged(error.orig):
            raise damaged(database, str(error.orig)) from error
        raise StoreError(f"The store failed: {error.orig}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"The store failed: {error}") from error


@contextmanager
def unsure_if_cut_off() -> Iterator[None]:
    """Raise `StoreUnsureError` if the connection to the database breaks during a commit."""
    try:
        yield
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise StoreUnsureError(f"The connection to the store broke during a commit: {error.orig}") from error


def check_integrity(writer: Engine) -> None:
    """Check an SQLite database of at most `MAX_CHECKED_BYTES`. Raises `StoreDamagedError`."""
    if writer.url.get_backend_name() != "sqlite":
        return
    if Path(str(writer.url.database)).stat().st_size > MAX_CHECKED_BYTES:
        return
    with translated(writer.url), writer.connect() as connection:
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA quick_check(3)")]
    if found != ["ok"]:
        raise damaged(writer.url, "; ".join(found).replace("\n", " "))


def damaged(database: URL, details: str) -> StoreDamagedError:
    """Return the error of a damaged database; ``details`` are those of the driver."""
    return StoreDamagedError(
        f"The store {_named(database)} is damaged ({details}). Stop the service, keep a copy of the file and put "
        "a backup in its place. Without a backup, `sqlite3 FILE .recover` saves what can still be read."
    )


def _named(database: URL) -> str:
    """Return the file of a database, or the address of a server's, without its password."""
    is_file = database.get_backend_name() == "sqlite"
    return str(database.database) if is_file else database.render_as_string()


def is_damaged(error: BaseException | None) -> bool:
    """Return whether a driver's error says that the database file is damaged."""
    codes = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


def is_input_output(error: BaseException | None) -> bool:
    """Return whether SQLite failed to read or write a file, which a full disk can cause too."""
    return (
        isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR
    )


def _has_no_room(database: URL) -> bool:
    disk = os.statvfs(Path(str(database.database)).parent)
    return disk.f_bavail == 0


def is_full(error: BaseException | None) -> bool:
    """Return whether a driver's error says that the disk is full."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return getattr(error, "sqlstate", None) in {"53000", "53100"}
