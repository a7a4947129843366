"""``springtide backup`` and ``springtide restore``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click
from sqlalchemy.engine import URL

from springtide.hub_extension.backup.archive import BackupError, Manifest
from springtide.hub_extension.backup.contents import DATABASE, JOBS
from springtide.hub_extension.backup.mark import note_backup
from springtide.hub_extension.backup.restoring import Restored
from springtide.hub_extension.backup.restoring import restore as put_back
from springtide.hub_extension.backup.saving import save
from springtide.hub_extension.commands.text import json_option, one_line, print_json, say
from springtide.hub_extension.local_hub.state_dir import StateDir, StateError
from springtide.scheduler.store import StoreError
from springtide.scheduler.store.opening import parse_url
from springtide.scheduler.wording import count, exact, listed

STDOUT = Path("-")

state_dir_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("springtide-state"),
    show_default=True,
    help="State directory of the pool.",
)
database_option = click.option(
    "--database", help="Database URL of the pool, if it is not SQLite in the state directory."
)


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@state_dir_option
@database_option
@click.option("--with-secrets", is_flag=True, help="Save tokens, cookie secrets and the password too.")
@click.option("--with-jobs", is_flag=True, help="Save checkpoints, outputs, logs and working directories too.")
@click.option("--without-database", is_flag=True, help="Leave a store in PostgreSQL to PostgreSQL's own tools.")
@json_option
def backup(
    *,
    file: Path,
    state_dir: Path,
    database: str | None,
    with_secrets: bool,
    with_jobs: bool,
    without_database: bool,
    as_json: bool,
) -> None:
    """Save the pool's state in FILE, also while the service runs; - is the standard output.

    The backup has the store (queue, projects, quotas, history, audit trail), the hub's database if `springtide up`
    keeps it (people, groups), the numeric account of each user, and the files sent with jobs. It has no home
    directories. A store in PostgreSQL is saved by pg_dump, which has to be installed here.
    """
    at = time.time()
    store: Path | URL | None = store_of(state_dir, database)
    if without_database:
        if isinstance(store, Path):
            raise click.BadParameter(f"the store is the file {store}", param_hint="--without-database")
        store = None
    try:
        with _target(file) as target:
            manifest = save(state_dir.expanduser(), store, target, at, secrets=with_secrets, jobs=with_jobs)
        if manifest.database:
            note_backup(state_dir.expanduser(), at)
    except (BackupError, StoreError) as error:
        raise click.ClickException(one_line(str(error))) from error
    except OSError as error:
        where = "The standard output" if file == STDOUT else str(file)
        raise click.ClickException(f"{where} did not take all of the backup: {error.strerror}.") from error
    if as_json and file != STDOUT:
        print_json(manifest)
    else:
        say(saved(file, manifest))


def store_of(state_dir: Path, database: str | None) -> Path | URL:
    """Return the store's file, or its URL in PostgreSQL. Raises `click.BadParameter` for an invalid URL."""
    if database is None:
        return state_dir.expanduser().absolute() / DATABASE
    try:
        url = parse_url(database)
    except StoreError as error:
        raise click.BadParameter(str(error), param_hint="--database") from error
    return Path(str(url.database)).absolute() if url.get_backend_name() == "sqlite" else url


def saved(file: Path, manifest: Manifest) -> str:
    """Return the message after a backup."""
    left_out = [
        *(["the store in PostgreSQL"] if not manifest.database else []),
        *(["the files of jobs (--with-jobs)"] if not manifest.jobs else []),
        *(["secrets (--with-secrets)"] if not manifest.secrets else []),
        "home directories",
    ]
    where = "" if file == STDOUT else f" in {file}"
    return f"Saved {count(len(manifest.files), 'file')}{where}. Left out: {', '.join(left_out)}."


@contextmanager
def _target(file: Path) -> Iterator[IO[bytes]]:
    """Yield the stream to write to; a file appears under its name when it is complete, for its owner alone."""
    if file == STDOUT:
        if sys.stdout.isatty():
            raise click.BadParameter("a terminal cannot take a backup; redirect it", param_hint="FILE")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if file.exists():
        raise click.BadParameter(f"{file} exists already; choose another name", param_hint="FILE")
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.rename(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@state_dir_option
@database_option
@json_option
def restore(*, file: Path, state_dir: Path, database: str | None, as_json: bool) -> None:
    """Put the backup FILE in place of the pool's state. Refused while the service runs.

    Running jobs and notebooks continue, and existing files of jobs are kept: the next start finds them. Replaced
    files are kept in a directory beside them.
    """
    store = store_of(state_dir, database)
    try:
        restored = put_back(file, StateDir(state_dir), store, time.time())
    except (BackupError, StoreError, StateError) as error:
        raise click.ClickException(one_line(str(error))) from error
    if as_json:
        print_json(restored)
        return
    for line in lines_of(restored):
        click.echo(one_line(line))


def lines_of(restored: Restored) -> Iterator[str]:
    """Yield the lines of the message after a restore."""
    yield f"{restored.state_dir} is as it was saved at {exact(restored.at)} (Springtide {restored.version})."
    if restored.jobs or restored.kept:
        yield (
            f"Files of {count(restored.jobs, 'job')} were restored; those of {count(restored.kept, 'job')} were "
            f"in {JOBS}/ already and are as they were."
        )
    if restored.replaced:
        yield f"The previous state is in {listed(restored.replaced)}: remove it when you are satisfied."
    if not restored.database:
        yield "The backup has no store: restore that by PostgreSQL's own tools before the next start."
