"""The store, in SQLite or PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from springtide.scheduler.store import opening, pruning, writing
from springtide.scheduler.store.bundles import SMALL, BundleFiles, check_room, unpack
from springtide.scheduler.store.errors import FilesGoneError, StoreMovedError
from springtide.scheduler.store.place import Place
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import Bundle, WriteBatch
from springtide.scheduler.store.rescue import rescue

P = ParamSpec("P")
T = TypeVar("T")
ORPHAN_AGE = 300.0
"""Age of a bundle file without a job after which it is deleted, in seconds."""


class Store:
    """An open store. Only its owner writes; every write checks that no other service has taken it over.

    Methods block. One thread writes (`commit`, `write` and the others of that part); any thread may read.
    """

    def __init__(
        self,
        url: URL,
        writer: Engine,
        reader: Engine,
        lock: opening.FileLock | opening.AdvisoryLock,
        files: BundleFiles,
    ) -> None:
        self._url = url
        self._writer = writer
        self._reader = reader
        self._lock: opening.FileLock | opening.AdvisoryLock | None = lock
        self._files = files
        self._place = Place(Path(str(url.database))) if url.get_backend_name() == "sqlite" else None
        self._rescued: StoreMovedError | None = None
        self.epoch = opening.raise_epoch(writer)
        self._commits = 0

    @classmethod
    def open(cls, url: str, state_dir: Path, *, lock_wait: float = 5.0) -> Store:
        """Open the store: lock it, bring its schema up to date, raise its epoch.

        ``state_dir`` is where large bundles are kept. Raises `StoreLockedError` if another service has it,
        `StoreDamagedError` if the file is damaged, `StoreTooNewError` if its schema is newer than this code,
        `StoreError` otherwise.
        """
        parsed = opening.parse_url(url)
        if parsed.get_backend_name() == "sqlite":
            opening.make_private(Path(str(parsed.database)))
        writer, reader = opening.connect(parsed)
        lock: opening.FileLock | opening.AdvisoryLock | None = None
        try:
            with opening.translated(parsed):
                lock = opening.lock(parsed, writer, lock_wait)
            opening.check_integrity(writer)
            opening.migrate(writer)
            return cls(parsed, writer, reader, lock, BundleFiles(state_dir / "bundles"))
        except BaseException:
            _dispose(writer, reader, lock)
            raise

    def close(self) -> None:
        """Close the connections and release the lock. Closing again does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            _dispose(self._writer, self._reader, lock)

    @property
    def url(self) -> str:
        """Where the store is, without passwords."""
        return self._url.render_as_string(hide_password=True)

    # ---------- writing

    def raise_epoch(self, above: int) -> None:
        """Raise the epoch above ``above``, an epoch that an executor has obeyed: the store is a restored copy."""
        self.epoch = opening.raise_epoch(self._writer, above)

    def save_bundle(self, bundle: Bundle) -> None:
        """Write a large bundle to disk before its job is committed. May be called from any thread."""
        if len(bundle.content) > SMALL:
            self._files.save(bundle)

    def save_tree(self, user: str, bundle: Bundle, at: float) -> None:
        """Keep a packed tree that a user has sent; it is on disk when this returns. Raises what `commit` does."""
        self.save_bundle(bundle)
        self.write(writing.save_tree, user, bundle, at, in_file=len(bundle.content) > SMALL)

    def commit(self, batch: WriteBatch) -> None:
        """Write all of the batch, or nothing. It is on disk when this returns.

        Raises `StoreFullError` if there is no room, `StoreTakenError` if another service owns the store now, and
        `StoreUnsureError` if the connection broke before the answer: `is_committed` answers it then.
        """
        large = {b.digest: len(b.content) for b in batch.bundles if len(b.content) > SMALL}
        self._commits += 1

        self.write(writing.commit, self._commit_mark, batch, large)

    def is_committed(self) -> bool:
        """Return whether the last commit is on disk, once nothing can change that any more.

        Raises `StoreError` while the database does not answer.
        """
        with opening.translated(self._url), self._writer.begin() as connection:
            writing.check_epoch(connection, self.epoch)
            return writing.read_commit_mark(connection) == self._commit_mark

    @property
    def _commit_mark(self) -> int:
        """The number that no other commit of this or another owner has."""
        return self.epoch << 32 | self._commits

    def probe(self) -> None:
        """Write something that changes nothing. Raises what `save_bundle` and `commit` do."""
        for directory in {self._files.directory.parent, *([self._place.database.parent] if self._place else [])}:
            check_room(directory)
        self.write(opening.touch, self.epoch)

    def drop_bundles(self, ended_before: float, most_bytes: int, now: float) -> None:
        """Delete files that neither an unfinished job needs nor a run again may.

        Kept are those of jobs that ended at ``ended_before`` or later, of each user the newest, up to
        ``most_bytes``, and trees that were sent a moment before ``now``.
        """
        old = self.read(pruning.unneeded_bundles, ended_before, most_bytes)
        self.write(pruning.drop_bundles, old, now - ORPHAN_AGE)
        wanted = self.read(reading.bundle_digests)
        self._files.drop_except(wanted, time.time() - ORPHAN_AGE)

    def write(self, change: Callable[Concatenate[Connection, P], None], *args: P.args, **more: P.kwargs) -> None:
        """Run a function that writes, in a transaction of its own; on disk when this returns.

        Raises what `commit` does, and `StoreMovedError` if what it writes would not be found again.
        """
        self._check_place()
        with opening.translated(self._url), self._writer.connect() as connection:
            writing.check_epoch(connection, self.epoch)
            change(connection, *args, **more)
            with opening.unsure_if_cut_off():
                connection.commit()
        self._check_place()

    def _check_place(self) -> None:
        """Raise `StoreMovedError` if the store's files were removed or replaced; save what they hold, once."""
        if self._place is None:
            return
        try:
            self._place.check()
        except StoreMovedError as error:
            if self._rescued is None or self._rescued.log_only != error.log_only:
                self._rescued = rescue(self._writer, self._place, error, self.epoch)
            raise self._rescued from error

    # ---------- reading

    def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs) -> T:
        """Return the result of a reading function, such as those of `queries`."""
        with opening.translated(self._url), self._reader.connect() as connection:
            return query(connection, *args, **more)

    def files(self, digest: str) -> dict[str, bytes]:
        """Return the files of a bundle. Raises `FilesGoneError` if they are not there any more."""
        return unpack(self.content(digest))

    def check_stored(self, digest: str) -> None:
        """Raise `FilesGoneError` if a bundle is not there any more."""
        known, _ = self.read(reading.bundle, digest)
        if not known:
            raise FilesGoneError("The job's files are not in the store.")

    def content(self, digest: str) -> bytes:
        """Return the content of a bundle. Raises `FilesGoneError` if it is not there any more."""
        known, content = self.read(reading.bundle, digest)
        if not known:
            raise FilesGoneError("The job's files are not in the store.")
        return self._files.read(digest) if content is None else content


def _dispose(writer: Engine, reader: Engine, lock: opening.FileLock | opening.AdvisoryLock | None) -> None:
    if isinstance(lock, opening.AdvisoryLock):
        lock.release()
    reader.dispose()
    writer.dispose()
    if isinstance(lock, opening.FileLock):
        lock.release()
