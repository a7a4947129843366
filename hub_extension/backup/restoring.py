"""Puts a backup in place of a stopped pool's state."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec
from sqlalchemy.engine import URL

from springtide.hub_extension.backup.archive import BackupError, Manifest, read_archive
from springtide.hub_extension.backup.contents import BUNDLES, DATABASE, DATABASES, DUMP, JOBS
from springtide.hub_extension.backup.postgresql import check_dump, locked_database, replace_database
from springtide.hub_extension.local_hub.state_dir import StateDir, StateError
from springtide.scheduler.own_files import sync_directory
from springtide.scheduler.store import StoreLockedError
from springtide.scheduler.store.copying import check_copy
from springtide.scheduler.store.opening import LOCK_SUFFIX, FileLock

SIDECARS = ("-wal", "-shm", "-journal")
"""Suffixes of the files beside an SQLite database."""


class Restored(msgspec.Struct, frozen=True):
    """The outcome of a restore. ``kept`` is the number of jobs whose existing files were left as they are.

    ``replaced`` are directories with the replaced files.
    """

    state_dir: str
    at: float
    version: str
    database: bool
    jobs: int
    kept: int
    replaced: list[str]


def restore(path: Path, state: StateDir, store: Path | URL, at: float) -> Restored:
    """Put the backup in place, its store as the file ``store`` or into the PostgreSQL database of that URL.

    Nothing changes unless all of the backup is sound.

    Existing files of jobs are left: they are newer than the backup, and running jobs use them. ``at`` is the
    present time, which names the directory of replaced files. Raises `BackupError` while a service or hub uses the
    state directory, `StoreError` for a store of a newer schema or a damaged one.
    """
    with _alone(state, store), tempfile.TemporaryDirectory(prefix=".restore-", dir=state.path) as made:
        room = Path(made)
        try:
            manifest = read_archive(path, lambda name, mode, content: _write(room / name, mode, content))
            _check_databases(path, room, store)
            _give_to_owner(room, state.path)
            return _put_in_place(room, state.path, store, manifest, at)
        except OSError as error:
            where = error.filename or path
            raise BackupError(f"The backup cannot be restored: {error.strerror} ({where}).") from error


@contextmanager
def _alone(state: StateDir, store: Path | URL) -> Iterator[None]:
    """Hold the locks of hub and service. Raises `BackupError` if one of them runs."""
    with ExitStack() as stack:
        try:
            stack.enter_context(state.locked())
            if isinstance(store, URL):
                stack.enter_context(locked_database(store))
            else:
                stack.callback(FileLock(_lock_of(store), 0.0).release)
        except StateError as error:
            raise BackupError(str(error)) from error
        except StoreLockedError:
            holder = "" if isinstance(store, URL) else f" (process {_lock_of(store).read_text().strip()})"
            raise BackupError(
                f"The pool's service{holder} is using {store}. Stop it first: jobs continue "
                "meanwhile, and the next start finds them."
            ) from None
        yield


def _lock_of(store: Path) -> Path:
    return store.with_name(f"{store.name}{LOCK_SUFFIX}")


def _check_databases(path: Path, room: Path, store: Path | URL) -> None:
    """Check the unpacked databases of the backup ``path``: its store has to be of the kind of ``store``."""
    for name in DATABASES:
        if (room / name).is_file():
            check_copy(room / name, versioned=name == DATABASE)
    if (room / DATABASE).is_file() and isinstance(store, URL):
        raise BackupError(
            f"The store in {path} is of SQLite, and --database names {store}. Name an SQLite database, or none "
            "for that of the state directory."
        )
    if (room / DUMP).is_file():
        if not isinstance(store, URL):
            raise BackupError(
                f"The store in {path} is of PostgreSQL: name the database that it goes into, as in --database "
                "postgresql://springtide@db/springtide."
            )
        check_dump(room / DUMP)


def _write(path: Path, mode: int, content: IO[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), mode | 0o600)


def _give_to_owner(room: Path, state: Path) -> None:
    """As root, give everything to the account that the state directory belongs to."""
    owner = state.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        for folder, _, names, handle in os.fwalk(room):
            os.chown(folder, owner.st_uid, owner.st_gid)
            for name in names:
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=handle)


def _put_in_place(room: Path, state: Path, store: Path | URL, manifest: Manifest, at: float) -> Restored:
    """Move jobs first, the databases last: until then the pool is as it was."""
    moved, kept = _move_jobs(room / JOBS, state / JOBS)
    aside = time.strftime("replaced-%Y%m%d-%H%M%S", time.gmtime(at))
    replaced: set[Path] = set()
    names = [name for name in manifest.files if name != DUMP and not name.startswith(f"{JOBS}/")]
    for name in sorted(names, key=lambda name: (name in DATABASES, name == DATABASE)):
        root, target = state, state / name
        if name == DATABASE and isinstance(store, Path):
            root, target = store.parent, store
        if name.startswith(f"{BUNDLES}/") and target.exists():
            continue
        beside = target.with_name(f".{target.name}.restored")
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.move(room / name, beside)
        if target.exists():
            replaced.add(root / aside)
            _set_aside(target, root / aside / target.relative_to(root), database=name in DATABASES)
        beside.replace(target)
        sync_directory(target.parent)
    kept_dump = state / aside / DUMP
    if isinstance(store, URL) and DUMP in manifest.files and replace_database(store, room / DUMP, kept_dump):
        replaced.add(kept_dump.parent)
    return Restored(
        str(state),
        manifest.at,
        manifest.version,
        manifest.database,
        moved,
        kept,
        sorted(map(str, replaced)),
    )


def _move_jobs(source: Path, target: Path) -> tuple[int, int]:
    """Move the missing directories of jobs; return their number and that of existing ones, left as they are."""
    moved = kept = 0
    if source.is_dir():
        target.mkdir(mode=0o700, exist_ok=True)
        for job in sorted(source.iterdir()):
            if (target / job.name).exists():
                kept += 1
            else:
                job.rename(target / job.name)
                moved += 1
    return moved, kept


def _set_aside(target: Path, kept: Path, *, database: bool) -> None:
    """Keep a file as ``kept``, with the files that SQLite has beside it.

    The log of a database goes before the file itself is replaced: SQLite would apply it to the other file.
    """
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.link(target, kept)
    for suffix in SIDECARS if database else ():
        with suppress(FileNotFoundError):
            target.with_name(f"{target.name}{suffix}").rename(f"{kept}{suffix}")
