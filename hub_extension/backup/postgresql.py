"""Dumps of a store in PostgreSQL, by PostgreSQL's own programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import URL

from springtide.hub_extension.backup.archive import BackupError
from springtide.scheduler.store import StoreError
from springtide.scheduler.store.copying import check_revisions
from springtide.scheduler.store.opening import lock, translated

REVISION = re.compile(r"^COPY \S*alembic_version \(version_num\) FROM stdin;\n(\w+)$", re.MULTILINE)
PORTABLE = ("--no-owner", "--no-privileges")
"""The tables of a restored store belong to the restoring account."""


def dump_database(url: URL, target: Path) -> None:
    """Write a dump of the database as it is at this moment into a new file; a service may be writing to it.

    Raises `BackupError`.
    """
    _run(url, "pg_dump", "--format=custom", "--no-password", *PORTABLE, f"--file={target}")


def check_dump(dump: Path) -> None:
    """Check a dump that was read from a backup.

    Raises `StoreTooNewError` if its schema is newer than this code, `StoreError` if it holds no store of
    Springtide, `BackupError` if it cannot be read.
    """
    table = _run(None, "pg_restore", "--data-only", "--table=alembic_version", "--file=-", str(dump))
    revisions = set(REVISION.findall(table))
    if not revisions:
        raise StoreError(f"{dump.name} is not a store of Springtide: it has no version of a schema.")
    check_revisions(dump.name, revisions)


@contextmanager
def locked_database(url: URL) -> Iterator[None]:
    """Hold the store's lock against services. Raises `StoreLockedError` if one uses it, `StoreError`."""
    engine = create_engine(url)
    try:
        with translated(url):
            held = lock(url, engine, 0.0)
        try:
            yield
        finally:
            held.release()
    finally:
        engine.dispose()


def replace_database(url: URL, dump: Path, kept: Path) -> bool:
    """Put a dump in place of all tables of the database, in one transaction.

    Former tables are dumped to the file ``kept`` first. Returns whether there were any. Raises `BackupError`.
    """
    tables = _tables(url)
    if tables:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        dump_database(url, kept)
        kept.chmod(0o600)
    with tempfile.TemporaryDirectory(dir=dump.parent) as room:
        empty, fill = Path(room) / "empty.sql", Path(room) / "fill.sql"
        empty.write_text("".join(f'DROP TABLE "{name}" CASCADE;\n' for name in tables))
        _run(None, "pg_restore", *PORTABLE, f"--file={fill}", str(dump))
        words = ("--no-psqlrc", "--no-password", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1")
        _run(url, "psql", *words, f"--file={empty}", f"--file={fill}")
    return bool(tables)


def _tables(url: URL) -> list[str]:
    engine = create_engine(url)
    try:
        with translated(url):
            return inspect(engine).get_table_names()
    finally:
        engine.dispose()


def _run(url: URL | None, program: str, *words: str) -> str:
    """Run a program of PostgreSQL on a database, and return its output; the password is in no command line."""
    path = shutil.which(program)
    if path is None:
        raise BackupError(
            f"The store is in PostgreSQL, and there is no program {program} here. Install PostgreSQL's client "
            "programs (the package postgresql-client), or leave the store to its own tools: --without-database."
        )
    environment = dict(os.environ)
    if url is not None:
        address = URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
        words = (*words, f"--dbname={address}")
        if url.password is not None:
            environment["PGPASSWORD"] = str(url.password)
    done = subprocess.run(
        [path, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BackupError(f"{program} failed: {' '.join(done.stderr.split())}")
    return done.stdout
