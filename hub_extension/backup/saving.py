"""Writes a backup, also while the service runs."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO

from sqlalchemy.engine import URL

from springtide.hub_extension.backup.archive import FORMAT, Archive, BackupError, Manifest
from springtide.hub_extension.backup.contents import (
    DATABASE,
    DUMP,
    HUB_DATABASE,
    JOBS,
    is_kept,
    jobs_in,
    small_files,
)
from springtide.hub_extension.backup.postgresql import dump_database
from springtide.scheduler.store.copying import copy_database

NO_LINKS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def save(
    state: Path, store: Path | URL | None, target: IO[bytes], at: float, *, secrets: bool, jobs: bool
) -> Manifest:
    """Write a backup of the state directory to ``target``, and return its manifest.

    ``store`` is the file of the store, or its URL in PostgreSQL; None leaves it out. ``at`` is the present time.
    Links in the directories of jobs are neither followed nor saved.

    Raises `BackupError` or `StoreError`.
    """
    if not state.is_dir():
        raise BackupError(f"There is no state directory {state}: name that of the pool with --state-dir.")
    if isinstance(store, Path) and not store.is_file():
        raise BackupError(
            f"There is no store {store}. Name the pool's state directory with --state-dir, and a store elsewhere "
            "with --database."
        )
    archive = Archive(target, at)
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=state) as room:
            for name, copy in _copies(state, store, Path(room)):
                with copy.open("rb") as file:
                    archive.add(name, file)
                copy.unlink()
        for name in small_files(state, secrets=secrets):
            with _opened(state / name) as small:
                if small is not None:
                    archive.add(name, small)
        if jobs:
            _save_jobs(state, archive)
        manifest = Manifest(FORMAT, version("springtide"), at, store is not None, secrets, jobs, archive.files)
        archive.close(manifest)
    except OSError as error:
        where = error.filename or "the backup"
        raise BackupError(f"The backup cannot be written: {error.strerror} ({where}).") from error
    return manifest


def _copies(state: Path, store: Path | URL | None, room: Path) -> Iterator[tuple[str, Path]]:
    """Copy the databases one by one; yield their names in the backup and the copies."""
    if isinstance(store, URL):
        dump_database(store, room / DUMP)
        yield DUMP, room / DUMP
    files = {DATABASE: store, HUB_DATABASE: state / HUB_DATABASE}
    for name, database in files.items():
        if isinstance(database, Path) and database.is_file():
            copy = room / Path(name).name
            copy_database(database, copy)
            yield name, copy


def _save_jobs(state: Path, archive: Archive) -> None:
    """Add the plain files of all jobs; jobs may change and remove them meanwhile."""
    for job in jobs_in(state):
        root = state / JOBS / job
        for folder, _, names, handle in os.fwalk(root, follow_symlinks=False):
            inside = Path(folder).relative_to(root)
            for name in sorted(names):
                path = (inside / name).as_posix()
                with _opened(Path(name), handle) as file:
                    if file is not None and is_kept(path):
                        archive.add(f"{JOBS}/{job}/{path}", file)


@contextmanager
def _opened(path: Path, directory: int | None = None) -> Iterator[IO[bytes] | None]:
    """Open a plain file without following a link; yield None for anything else, and for a file that has gone."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(os.fdopen(os.open(path, NO_LINKS, dir_fd=directory), "rb"))
        except OSError:
            yield None
            return
        yield file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
