"""The store, in SQLite or PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from springtide.scheduler.notifications import Channel, Delivery
from springtide.scheduler.store import (
    deliveries,
    gpu_usage_writing,
    opening,
    pruning,
    schema,
    shown_forecasts,
    writing,
)
from springtide.scheduler.store.bundles import SMALL, BundleFiles, check_room, unpack
from springtide.scheduler.store.errors import FilesGoneError, StoreMovedError
from springtide.scheduler.store.gpu_usage import UsageRecord, UsageSum
from springtide.scheduler.store.place import Place
from springtide.scheduler.store.queries import reading, trials, usage
from springtide.scheduler.store.queries.listing import Position
from springtide.scheduler.store.records import (
    AuditRecord,
    Bundle,
    DecisionRecord,
    EventRecord,
    FinishedTrial,
    GpuUse,
    JobQuery,
    JobRecord,
    Loaded,
    TrialQuery,
    WriteBatch,
)
from springtide.scheduler.store.rescue import rescue
from springtide.scheduler.store.shown_forecasts import ForecastOutcome, ShownForecast

T = TypeVar("T")
ORPHAN_AGE = 300.0
"""Age of a bundle file without a job after which it is deleted, in seconds."""


class Store:
    """An open store. Only its owner writes; every write checks that no other service has taken it over.

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

    def commit(self, batch: WriteBatch) -> None:
        """Write all of the batch, or nothing. It is on disk when this returns.

        Raises `StoreFullError` if there is no room, `StoreTakenError` if another service owns the store now, and
        `StoreUnsureError` if the connection broke before the answer: `is_committed` tells then.
        """
        large = {b.digest: len(b.content) for b in batch.bundles if len(b.content) > SMALL}
        self._commits += 1

        def write(connection: Connection) -> None:
            writing.mark_commit(connection, self._commit_mark)
            writing.write(connection, batch, large)

        self._write(write)

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

    def settle_deliveries(self, changed: Sequence[Delivery]) -> None:
        """Write the states of deliveries."""
        self._write(lambda connection: deliveries.settle(connection, changed))

    def probe(self) -> None:
        """Write something that changes nothing. Raises what `save_bundle` and `commit` do."""
        for directory in {self._files.directory.parent, *([self._place.database.parent] if self._place else [])}:
            check_room(directory)
        self._write(lambda connection: opening.touch(connection, self.epoch))

    def drop_jobs(self, ids: list[str]) -> None:
        """Delete ended jobs."""
        self._write(lambda connection: pruning.drop_jobs(connection, ids))

    def prune(self, *, events: int, decisions: int, audit_before: float) -> None:
        """Keep the newest events and decisions, deliveries of such events, and audit since ``audit_before``."""

        def prune(connection: Connection) -> None:
            deliveries.prune(connection, events)
            pruning.keep_newest(connection, schema.events, events)
            pruning.keep_decisions(connection, decisions)
            pruning.drop_audit(connection, audit_before)

        self._write(prune)

    def save_usage(self, records: Sequence[UsageRecord], now: float) -> None:
        """Write the use of one interval, sum up longer intervals that have ended, and drop what is too old."""
        self._write(lambda connection: gpu_usage_writing.save(connection, records, now))

    def save_forecasts(self, forecasts: Sequence[ShownForecast]) -> None:
        """Write the forecasts of starts that are shown from now on."""
        self._write(lambda connection: shown_forecasts.save(connection, forecasts))

    def drop_bundles(self, ended_before: float, most_bytes: int) -> None:
        """Delete files that neither an unfinished job needs nor a run again may.

        Kept are those of jobs that ended at ``ended_before`` or later, of each user the newest, up to
        ``most_bytes``.
        """
        old = self._read(lambda connection: pruning.unneeded_bundles(connection, ended_before, most_bytes))
        self._write(lambda connection: pruning.drop_bundles(connection, old))
        wanted = self._read(reading.bundle_digests)
        self._files.drop_except(wanted, time.time() - ORPHAN_AGE)

    def _write(self, work: Callable[[Connection], None]) -> None:
        """Run the writes of a transaction. Raises `StoreMovedError` if they would not be found again."""
        self._check_place()
        with opening.translated(self._url), self._writer.connect() as connection:
            writing.check_epoch(connection, self.epoch)
            work(connection)
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

    def _read(self, work: Callable[[Connection], T]) -> T:
        with opening.translated(self._url), self._reader.connect() as connection:
            return work(connection)

    def load(self) -> Loaded:
        """Return all that the engine keeps in memory."""
        return self._read(reading.load)

    def files(self, digest: str) -> dict[str, bytes]:
        """Return the files of a bundle. Raises `FilesGoneError` if they are not there any more."""
        known, content = self._read(lambda connection: reading.bundle(connection, digest))
        if not known:
            raise FilesGoneError("The job's files are not in the store.")
        return unpack(self._files.read(digest) if content is None else content)

    def job(self, job_id: str) -> JobRecord | None:
        """Return a job with its latest attempts, None if there is none."""
        return self._read(lambda connection: reading.job(connection, job_id))

    def jobs_by_key(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobRecord]:
        """Return the jobs that users' submission keys were accepted for, as far as there are any."""
        return self._read(lambda connection: reading.jobs_by_key(connection, keys))

    def jobs(self, query: JobQuery, after: Position | None, limit: int) -> list[JobRecord]:
        """Return jobs that match, in the order of the query, those after a position."""
        return self._read(lambda connection: reading.jobs(connection, query, after, limit))

    def trials(self, query: TrialQuery) -> list[tuple[int, str]]:
        """Return the numbers and the jobs of the trials that match, in the order of the query."""
        return self._read(lambda connection: trials.listed(connection, query))

    def jobs_by_id(self, ids: Sequence[str]) -> list[JobRecord]:
        """Return the jobs with these ids, in their order."""
        return self._read(lambda connection: reading.jobs_by_id(connection, ids))

    def failed_trials(self, sweep: str) -> list[tuple[int, str]]:
        """Return the numbers and the jobs of a sweep's trials that have failed, in order."""
        return self._read(lambda connection: trials.failed(connection, sweep))

    def trial_history(self, sweep: str) -> list[FinishedTrial]:
        """Return the trials of a sweep that have begun, in order."""
        return self._read(lambda connection: trials.history(connection, sweep))

    def trial_jobs(self, sweep: str) -> Sequence[str]:
        """Return the ids of all jobs of a sweep's trials, also of those that were tried again."""
        return self._read(lambda connection: trials.ids(connection, sweep))

    def sweep_parameters(self, sweep: str) -> bytes | None:
        """Return the parameters of a sweep's trials that were known beforehand, as a JSON list."""
        found = self._read(lambda connection: trials.parameters(connection, sweep))
        return found[0].body if found else None

    def events(self, after: int, limit: int) -> list[EventRecord]:
        """Return events with ids above ``after``, in order."""
        return self._read(lambda connection: reading.events(connection, after, limit))

    def open_deliveries(self) -> list[Delivery]:
        """Return the deliveries that wait or are being sent, oldest first."""
        return self._read(deliveries.unfinished)

    def waiting_deliveries(self, user: str, channel: Channel, limit: int) -> list[Delivery]:
        """Return the deliveries of a person that wait for a channel, oldest first."""
        return self._read(lambda connection: deliveries.waiting(connection, user, channel, limit))

    def latest_deliveries(self, user: str, channels: Sequence[Channel]) -> dict[Channel, Delivery]:
        """Return the latest delivery of a person through each of the channels that was tried."""
        return self._read(lambda connection: deliveries.latest(connection, user, channels))

    def oldest_event(self) -> int | None:
        """Return the id of the oldest event that is still kept."""
        return self._read(reading.oldest_event)

    def audit(self, before: int | None, limit: int) -> list[AuditRecord]:
        """Return the audit trail, newest first."""
        return self._read(lambda connection: reading.audit(connection, before, limit))

    def audit_entry(self, audit_id: int) -> AuditRecord | None:
        """Return an entry of the audit trail, None if there is none."""
        return self._read(lambda connection: reading.audit_entry(connection, audit_id))

    def gpu_use(self, start: float, end: float) -> list[GpuUse]:
        """Return attempts that held GPUs between ``start`` and ``end``."""
        return self._read(lambda connection: reading.gpu_use(connection, start, end))

    def newest_usage(self) -> list[UsageRecord]:
        """Return what was measured in the newest interval."""
        return self._read(usage.newest)

    def usage_of_job(self, job: str, step: int, start: float, end: float) -> list[UsageRecord]:
        """Return the measured use of a job's GPUs in intervals of ``step`` seconds, in the order of time.

        Those since the last one that is complete are shorter.
        """
        return self._read(lambda connection: usage.of_job(connection, job, step, start, end))

    def workspaces_used(self, utilization: float) -> dict[tuple[str, str], float]:
        """Return when each workspace, by user and server, last used its GPUs by at least ``utilization``."""
        return self._read(lambda connection: usage.workspaces_used(connection, utilization))

    def usage_sums(
        self, by: Sequence[str], step: int, start: float, end: float, kinds: Sequence[str]
    ) -> list[UsageSum]:
        """Return the measured use by fields of `UsageKey`, of holders of these kinds, the most held first."""
        return self._read(lambda connection: usage.sums(connection, by, step, start, end, kinds=kinds))

    def forecast_outcomes(self, since: float) -> list[ForecastOutcome]:
        """Return the forecasts shown since a time, in seconds since the epoch, of jobs that have started since."""
        return self._read(lambda connection: shown_forecasts.outcomes(connection, since))

    def decisions(self, first: int, last: int) -> list[DecisionRecord]:
        """Return decisions with ids from ``first`` to ``last``."""
        return self._read(lambda connection: reading.decisions(connection, first, last))

    def ended_before(self, at: float, limit: int) -> list[str]:
        """Return ids of jobs that ended before ``at``, longest ago first."""
        return self._read(lambda connection: reading.ended_before(connection, at, limit))


def _dispose(writer: Engine, reader: Engine, lock: opening.FileLock | opening.AdvisoryLock | None) -> None:
    if isinstance(lock, opening.AdvisoryLock):
        lock.release()
    reader.dispose()
    writer.dispose()
    if isinstance(lock, opening.FileLock):
        lock.release()
