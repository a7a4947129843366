"""How a store is opened: connections, the lock that keeps a second service out, migrations, the epoch."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, insert, select, text, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from springtide.scheduler.store import schema
from springtide.scheduler.store.errors import StoreError, StoreFullError, StoreLockedError, StoreTooNewError

ADVISORY_LOCK = 0x5350_5249_4E47  # "SPRING": the same for every service of one database
LOCK_RETRY = 0.05
BUSY_TIMEOUT_MS = 10_000
MIGRATIONS = Path(__file__).parent / "migrations"


def parse_url(url: str) -> URL:
    """The store's URL with its driver. Raises `StoreError` for a URL that is neither SQLite nor PostgreSQL."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreError(
            f"The store's URL {url!r} is not a database URL, such as sqlite:////srv/pool.sqlite."
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreError("The store's URL names no file; an SQLite store must be on disk.")
        return parsed
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreError(f"The store can be SQLite or PostgreSQL, not {backend!r}.")


def connect(url: URL) -> tuple[Engine, Engine]:
    """The writer's and the readers' connections."""
    if url.get_backend_name() != "sqlite":
        engine = create_engine(url, pool_pre_ping=True, pool_size=5)
        return engine, engine
    writer = create_engine(url, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False})
    reader = create_engine(url, pool_size=2, connect_args={"check_same_thread": False})
    for engine, begin, query_only in ((writer, "BEGIN IMMEDIATE", False), (reader, "BEGIN", True)):
        _prepare_sqlite(engine, begin, query_only=query_only)
    return writer, reader


def _prepare_sqlite(engine: Engine, begin: str, *, query_only: bool) -> None:
    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        if query_only:
            connection.execute("PRAGMA query_only=ON")

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)


class FileLock:
    """An exclusive lock on a file beside the database; held until released or the process ends."""

    def __init__(self, path: Path, wait: float) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _retry(self._try, wait, str(path))
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(self._fd)
            raise

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let the next one in."""
        os.close(self._fd)


class AdvisoryLock:
    """PostgreSQL's session lock, on a connection of its own."""

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
        """Let the next one in."""
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
    """Keep every other service out, waiting up to ``wait`` seconds for one that is just leaving."""
    if url.get_backend_name() == "sqlite":
        return FileLock(Path(f"{url.database}.lock"), wait)
    return AdvisoryLock(writer, wait)


def migrate(writer: Engine) -> None:
    """Bring the schema up to this version's, in one transaction. Raises `StoreTooNewError` for a newer one."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    known = {revision.revision for revision in script.walk_revisions()}
    with translated(), writer.begin() as connection:
        present = set(MigrationContext.configure(connection).get_current_heads())
        if present - known:
            raise StoreTooNewError(
                f"The store {writer.url.render_as_string(hide_password=True)} was written by a newer Springtide "
                f"(schema {', '.join(sorted(present - known))}, here {script.get_current_head()}). "
                "Install that version again, or restore a copy of the store from before it."
            )
        if present != set(script.get_heads()):
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def raise_epoch(writer: Engine) -> int:
    """Become the owner: from here on every write of a former owner is refused."""
    with translated(), writer.begin() as connection:
        found = connection.execute(
            select(schema.meta.c.value).where(schema.meta.c.key == "epoch").with_for_update()
        ).scalar()
        if found is None:
            connection.execute(insert(schema.meta).values(key="epoch", value=1))
            return 1
        connection.execute(update(schema.meta).where(schema.meta.c.key == "epoch").values(value=found + 1))
        return int(found) + 1


@contextmanager
def translated() -> Iterator[None]:
    """Database errors as `StoreError`s, a full disk as `StoreFullError`."""
    try:
        yield
    except DBAPIError as error:
        if is_full(error.orig):
            raise StoreFullError("The disk that holds the store is full.") from error
        raise StoreError(f"The store failed: {error.orig}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"The store failed: {error}") from error


def is_full(error: BaseException | None) -> bool:
    """Whether a driver's error says that there is no room left."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return getattr(error, "sqlstate", None) in {"53000", "53100"}
