"""The store: what must not be forgotten, in SQLite or PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from springtide.scheduler.store import opening, pruning, reading, schema, writing
from springtide.scheduler.store.bundles import SMALL, BundleFiles, pack, unpack
from springtide.scheduler.store.errors import StoreError
from springtide.scheduler.store.records import (
    AuditRecord,
    Batch,
    Bundle,
    DecisionRecord,
    EventRecord,
    Held,
    JobQuery,
    JobRecord,
    Loaded,
)

T = TypeVar("T")
ORPHAN_AGE = 3600.0
"""Seconds that a bundle file may be on disk before its job is committed."""


class Store:
    """An open store. Its owner is the only one who writes; every write checks that it still is.

    Methods block. One thread writes (`commit` and the pruning methods); any thread may read.
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
        self.epoch = opening.raise_epoch(writer)

    @classmethod
    def open(cls, url: str, state_dir: Path, *, lock_wait: float = 5.0) -> Store:
        """Open the store: lock it, bring its schema up to date, raise its epoch.

        ``state_dir`` is where large bundles are kept. Raises `StoreLockedError` if another service has it,
        `StoreTooNewError` if its schema is newer than this code, `StoreError` otherwise.
        """
        parsed = opening.parse_url(url)
        if parsed.get_backend_name() == "sqlite":
            try:
                Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"The store's folder cannot be made: {error}.") from error
        writer, reader = opening.connect(parsed)
        lock: opening.FileLock | opening.AdvisoryLock | None = None
        try:
            with opening.translated():
                lock = opening.lock(parsed, writer, lock_wait)
            opening.migrate(writer)
            return cls(parsed, writer, reader, lock, BundleFiles(state_dir / "bundles"))
        except BaseException:
            _dispose(writer, reader, lock)
            raise

    def close(self) -> None:
        """Let the next owner in. Closing again does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            _dispose(self._writer, self._reader, lock)

    @property
    def url(self) -> str:
        """Where the store is, without passwords."""
        return self._url.render_as_string(hide_password=True)

    # ---------- writing

    def save_bundle(self, files: Mapping[str, bytes]) -> Bundle:
        """Pack a job's files; large ones are on disk when this returns. May be called from any thread."""
        bundle = pack(files)
        if len(bundle.content) > SMALL:
            self._files.save(bundle)
        return bundle

    def commit(self, batch: Batch) -> None:
        """Write all of the batch, or nothing. It is on disk when this returns.

        Raises `StoreFullError` if there is no room and `StoreTakenError` if another service owns the store now.
        """
        large = {b.digest: len(b.content) for b in batch.bundles if len(b.content) > SMALL}
        self._write(lambda connection: writing.write(connection, batch, large))

    def drop_jobs(self, ids: list[str]) -> None:
        """Forget ended jobs."""
        self._write(lambda connection: pruning.drop_jobs(connection, ids))

    def prune(self, *, events: int, decisions: int, audit_before: float) -> None:
        """Keep the newest events and decisions and the audit entries since ``audit_before``."""

        def prune(connection: Connection) -> None:
            pruning.keep_newest(connection, schema.events, events)
            pruning.keep_decisions(connection, decisions)
            pruning.drop_audit(connection, audit_before)

        self._write(prune)
        wanted = self._read(reading.bundle_digests)
        self._files.drop_except(wanted, time.time() - ORPHAN_AGE)

    def _write(self, work: Callable[[Connection], None]) -> None:
        with opening.translated(), self._writer.begin() as connection:
            writing.check_epoch(connection, self.epoch)
            work(connection)

    # ---------- reading

    def _read(self, work: Callable[[Connection], T]) -> T:
        with opening.translated(), self._reader.connect() as connection:
            return work(connection)

    def load(self) -> Loaded:
        """All that is needed to go on after a start."""
        return self._read(reading.load)

    def files(self, digest: str) -> dict[str, bytes]:
        """The files of a bundle. Raises `StoreError` if they are not there any more."""
        known, content = self._read(lambda connection: reading.bundle(connection, digest))
        if not known:
            raise StoreError("The job's files are not in the store.")
        return unpack(self._files.read(digest) if content is None else content)

    def job(self, job_id: str) -> JobRecord | None:
        """One job with its latest attempts."""
        return self._read(lambda connection: reading.job(connection, job_id))

    def jobs_by_key(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobRecord]:
        """The jobs that users' submission keys were accepted for, as far as there are any."""
        return self._read(lambda connection: reading.jobs_by_key(connection, keys))

    def jobs(self, query: JobQuery, before: int | None, limit: int) -> list[JobRecord]:
        """Jobs that match, newest first, with ``seq`` below ``before``."""
        return self._read(lambda connection: reading.jobs(connection, query, before, limit))

    def events(self, after: int, limit: int) -> list[EventRecord]:
        """Events with ids above ``after``, in order."""
        return self._read(lambda connection: reading.events(connection, after, limit))

    def oldest_event(self) -> int | None:
        """The id of the oldest event that is still kept."""
        return self._read(reading.oldest_event)

    def audit(self, before: int | None, limit: int) -> list[AuditRecord]:
        """The audit trail, newest first."""
        return self._read(lambda connection: reading.audit(connection, before, limit))

    def audit_entry(self, audit_id: int) -> AuditRecord | None:
        """One entry of the audit trail."""
        return self._read(lambda connection: reading.audit_entry(connection, audit_id))

    def held(self, start: float, end: float) -> list[Held]:
        """Attempts that held GPUs between ``start`` and ``end``."""
        return self._read(lambda connection: reading.held(connection, start, end))

    def decisions(self, first: int, last: int) -> list[DecisionRecord]:
        """Decisions with ids from ``first`` to ``last``."""
        return self._read(lambda connection: reading.decisions(connection, first, last))

    def ended_before(self, at: float, limit: int) -> list[str]:
        """Ids of jobs that ended before ``at``, longest ago first."""
        return self._read(lambda connection: reading.ended_before(connection, at, limit))


def _dispose(writer: Engine, reader: Engine, lock: opening.FileLock | opening.AdvisoryLock | None) -> None:
    if isinstance(lock, opening.AdvisoryLock):
        lock.release()
    reader.dispose()
    writer.dispose()
    if isinstance(lock, opening.FileLock):
        lock.release()
