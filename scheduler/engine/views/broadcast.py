"""Events of committed changes, for subscribers and for readers that wait for a log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.views import job_view
from springtide.scheduler.engine.views.events import EventHub, data_of, event_of
from springtide.scheduler.engine.views.read_model import ReadModel
from springtide.scheduler.executors.base import LogGrew
from springtide.scheduler.model import JobState
from springtide.scheduler.notifications import EVENT_KIND, Notification
from springtide.scheduler.store.records import EventRecord, JobRecord

REFRESH_DELAY = 0.25
"""Seconds over which changes that only the pool's state explains are collected into one event."""
REFRESH_DELAY_PER_GPU = 0.002
"""Minimum seconds between two events of the pool, for each of its GPUs: such an event has about 200 bytes for
each, and goes to every reader."""
MAX_REFRESH_DELAY = 5.0
"""Seconds between two events of the largest pools."""
MAX_REFRESHED_JOBS = 200
"""Maximum number of jobs whose reason is computed for one set of events; others show theirs when asked for."""


class Broadcast:
    """Turns committed transactions into events.

    Events of a job's own changes are recorded with the transaction and have an id; all others are transient.
    """

    def __init__(self, read_model: ReadModel, hub: EventHub, clock: Callable[[], float]) -> None:
        self._read_model = read_model
        self._hub = hub
        self._clock = clock
        self._refresh: asyncio.TimerHandle | None = None
        self._refreshed_at = 0.0
        self._latest: tuple[int, wire.Event] | None = None
        self._last_shown: dict[str, tuple[object, ...]] = {}
        self._log_readers: dict[str, set[asyncio.Event]] = {}
        self._never_saved: dict[str, asyncio.TimerHandle] = {}
        self._lost: dict[str, frozenset[str]] = {}
        """The names of metrics that are not finite, and an empty one if all checkpoints were deleted, by jobs."""

    def close(self) -> None:
        """End every stream and release every reader that waits for a log."""
        if self._refresh is not None:
            self._refresh.cancel()
        for timer in self._never_saved.values():
            timer.cancel()
        self._hub.close()
        for job_id in self._log_readers:
            self._wake_log_readers(job_id)

    # ---------- before the commit

    def event_records(
        self, transaction: Transaction, notifications: Iterable[Notification] = ()
    ) -> list[EventRecord]:
        """Return the events to be written with the transaction, ``notifications`` last."""
        state, now = self._read_model.state, transaction.now
        context = self._read_model.view_context_with(
            transaction.borrowing(), transaction.trials_of, transaction.holdings.get, transaction.jobs
        )
        brief = job_view.ViewContext(
            context.labels,
            context.borrowing,
            _none,
            _none,
            _none,
            _none,
            _none,
            context.trials_of,
            context.holding,
            context.has_ended,
            _none,
            context.at_stake,
            context.is_deleted,
            _none,
            context.grace,
        )
        records: list[EventRecord] = []

        def record(kind: str, data: bytes) -> None:
            records.append(EventRecord(state.last_event + len(records) + 1, now, kind, data))

        for job in {**transaction.marked, **transaction.jobs}.values():
            if not _only_progress(state.jobs.get(job.id), job):
                job_context = context if len(records) < MAX_REFRESHED_JOBS else brief
                record("job", _encoded(job_view.job(job, job_context, now, full=False)))
        for job in transaction.deleted.values():
            whose = {"job": job.id, "user": job.spec.user, "project": job.spec.project}
            record("deleted", msgspec.json.encode(whose))
        watched = (
            transaction.projects,
            transaction.people,
            transaction.budgets,
            transaction.bookings,
            transaction.change_requests,
        )
        if any(overlay.changes for overlay in watched):
            record("admin", b"{}")
        for notification in notifications:
            record(EVENT_KIND, msgspec.json.encode(notification))
        return records

    # ---------- after the commit

    def publish(
        self,
        transaction: Transaction,
        records: Iterable[EventRecord],
        *,
        reported: Iterable[str],
        logs: Iterable[LogGrew],
        nodes_changed: bool,
    ) -> None:
        """Send the recorded events, progress of the ``reported`` jobs, and growth of ``logs``."""
        for job in transaction.jobs.values():
            if job.state.final:
                self._last_shown.pop(job.id, None)
                self._lost.pop(job.id, None)
                self._wake_log_readers(job.id)
            self._follow_never_saved(job)
        for log in logs:
            self._wake_log_readers(log.job)
        reported = list(reported)
        changed = dict.fromkeys([*reported, *transaction.jobs])
        self.publish_jobs([job_id for job_id in changed if self._has_other_reason(job_id)])
        if not self._hub:
            return
        now = transaction.now
        self._hub.publish(event_of(record) for record in records)
        self._hub.publish(self._progress_events(reported, now))
        self._hub.publish(filter(None, (self._log_event(log, now) for log in logs)))
        if (transaction.must_commit or nodes_changed) and self._refresh is None:
            running = asyncio.get_running_loop()
            at = max(running.time() + REFRESH_DELAY, self._refreshed_at + self._refresh_interval())
            self._refresh = running.call_at(at, self._publish_refresh)

    def _follow_never_saved(self, job: JobRecord) -> None:
        """Send an event when a job that has saved nothing can be paused: no record changes then."""
        since = self._read_model.pausable_from(job)
        if since is None or job.standing.saved is not None:
            timer = self._never_saved.pop(job.id, None)
            if timer is not None:
                timer.cancel()
        elif job.id not in self._never_saved:
            self._publish_never_saved_at(job.id, since)

    def _publish_never_saved_at(self, job_id: str, at: float) -> None:
        wait = max(0.0, at - self._clock())
        timer = asyncio.get_running_loop().call_later(wait, self._publish_never_saved, job_id)
        self._never_saved[job_id] = timer

    def _publish_never_saved(self, job_id: str) -> None:
        """Send an event of a job without a checkpoint, and again when it mentions a greater loss."""
        self.publish_jobs((job_id,))
        job = self._read_model.state.jobs.get(job_id)
        if job is not None and job.live is not None and job.live.started is not None:
            started = job.live.started
            self._publish_never_saved_at(job_id, started + job_view.next_loss(self._clock() - started))

    def _has_saved_now(self, job_id: str) -> bool:
        """Return whether a job has saved its first checkpoint, and forget that it had none."""
        job = self._read_model.state.jobs.get(job_id)
        if job is None or job.standing.saved is None or job_id not in self._never_saved:
            return False
        self._never_saved.pop(job_id).cancel()
        return True

    def _has_other_reason(self, job_id: str) -> bool:
        """Return whether a report changes a sentence about its job."""
        saved, lost = self._has_saved_now(job_id), self._lacks_otherwise(job_id)
        return saved or lost

    def _lacks_otherwise(self, job_id: str) -> bool:
        """Return whether a job lacks other things than before: finite metrics, its checkpoints, or room."""
        job = self._read_model.state.jobs.get(job_id)
        lost: frozenset[str] = frozenset()
        if job is not None:
            lacks = {
                " checkpoints": job.checkpoints_deleted,
                " saved": job.standing.unsaved is not None,
                " room": job.standing.room_until is not None,
            }
            lost = frozenset([*job.standing.not_finite, *(what for what, is_so in lacks.items() if is_so)])
        if lost == self._lost.get(job_id, frozenset()):
            return False
        self._lost.pop(job_id, None)
        if lost:
            self._lost[job_id] = lost
        return True

    def _refresh_interval(self) -> float:
        gpus = sum(node.gpus for node in self._read_model.nodes.all)
        return min(MAX_REFRESH_DELAY, gpus * REFRESH_DELAY_PER_GPU)

    def _log_event(self, log: LogGrew, now: float) -> wire.Event | None:
        """Return the event of a longer log, with the job's owner, so that no reader has to look that up.

        A job that is not in memory has ended long ago: its log grows no more.
        """
        job = self._read_model.jobs.in_memory(log.job)
        if job is None:
            return None
        whose = {"user": job.spec.user, "project": job.spec.project}
        return wire.Event(kind="log", data={"job": log.job, "rank": log.rank, "size": log.size, **whose}, at=now)

    def _progress_events(self, job_ids: Iterable[str], now: float) -> Iterable[wire.Event]:
        for job_id in dict.fromkeys(job_ids):
            job = self._read_model.state.jobs.get(job_id)
            if job is not None:
                data = {
                    "job": job_id,
                    "user": job.spec.user,
                    "project": job.spec.project,
                    "progress": msgspec.to_builtins(job_view.progress(job)),
                    "saved": job.standing.saved,
                    "saved_step": job.standing.saved_step,
                    "checkpoint": msgspec.to_builtins(job_view.checkpoint(job)),
                }
                yield wire.Event(kind="progress", data=data, at=now)

    def _publish_refresh(self) -> None:
        """Send transient events of jobs whose reason, place or borrowed GPUs have changed, and of the pool."""
        self._refresh = None
        self._refreshed_at = asyncio.get_running_loop().time()
        if not self._hub:
            return
        context, now = self._read_model.view_context(), self._clock()
        changed = []
        jobs = (job for job in self._read_model.state.jobs.values() if not job.awaits_person)
        for job in islice(jobs, MAX_REFRESHED_JOBS):
            reason = job_view.job_reason(job, context, now)
            shown = (
                None if reason is None else (reason.headline, reason.text),
                job_view.place(job, context),
                context.borrowing.of(job),
            )
            if self._last_shown.get(job.id) != shown:
                self._last_shown[job.id] = shown
                changed.append(self._job_event(job))
        self._hub.publish(changed)
        self._hub.publish([self._pool_event()])

    def publish_jobs(self, job_ids: Collection[str]) -> None:
        """Send transient events of jobs whose view has changed although their record has not."""
        if not self._hub:
            return
        state = self._read_model.state
        jobs = (job for job_id in job_ids if (job := state.jobs.get(job_id)) is not None)
        self._hub.publish(self._job_event(job) for job in islice(jobs, MAX_REFRESHED_JOBS))

    def publish_pool(self) -> None:
        """Send the pool, of which something has changed that is in no transaction."""
        self._read_model.invalidate()
        if self._hub:
            self._hub.publish([self._pool_event()])

    def publish_waiting(self) -> None:
        """Send the pool and the waiting jobs, because the store takes writes no longer, or again."""
        self.publish_pool()
        states = (JobState.QUEUED, JobState.PAUSED)
        self.publish_jobs([job.id for job in self._read_model.state.jobs.values() if job.state in states])

    def publish_usage(self, pool: wire.PoolUsage, jobs: Mapping[str, wire.JobUsage]) -> None:
        """Send transient events of the use of all GPUs, and of those that each job holds."""
        if not self._hub:
            return
        now, state = self._clock(), self._read_model.state
        self._hub.publish([wire.Event(kind="gpus", data=msgspec.to_builtins(pool), at=now)])
        self._hub.publish(
            wire.Event(
                kind="usage",
                data={
                    "job": job.id,
                    "user": job.spec.user,
                    "project": job.spec.project,
                    "usage": msgspec.to_builtins(usage),
                },
                at=now,
            )
            for job_id, usage in jobs.items()
            if (job := state.jobs.get(job_id)) is not None
        )

    def _job_event(self, job: JobRecord) -> wire.Event:
        view = self._read_model.job(job, full=False)
        return wire.Event(kind="job", data=data_of(view), at=self._clock())

    def first_event(self) -> wire.Event:
        """Return the event of the pool for a new reader.

        It is the one of the other readers as long as a newer one is about to be sent, so that many who connect at
        once, as after a restart, share one.
        """
        if self._latest is not None and self._refresh is not None:
            return self._latest[1]
        return self._pool_event()

    def _pool_event(self) -> wire.Event:
        version = self._read_model.version
        if self._latest is None or self._latest[0] != version:
            data = msgspec.structs.asdict(self._read_model.pool())
            self._latest = version, wire.Event(kind="pool", data=data, at=self._clock())
        return self._latest[1]

    # ---------- logs

    async def wait_for_log(self, job_id: str, timeout: float) -> None:  # noqa: ASYNC109 - not an error here
        """Wait until a job's log grows or the job ends, at most ``timeout`` seconds."""
        reader = asyncio.Event()
        self._log_readers.setdefault(job_id, set()).add(reader)
        try:
            async with asyncio.timeout(timeout):
                await reader.wait()
        except TimeoutError:
            return
        finally:
            self._log_readers[job_id].discard(reader)
            if not self._log_readers[job_id]:
                del self._log_readers[job_id]

    def _wake_log_readers(self, job_id: str) -> None:
        for reader in self._log_readers.get(job_id, ()):
            reader.set()


def _only_progress(before: JobRecord | None, after: JobRecord) -> bool:
    """Return whether the records differ in nothing but progress, which has transient events."""
    if before is None:
        return False
    old, new = before.standing, after.standing
    return (
        old.state is new.state
        and old.attempt == new.attempt
        and old.held == new.held
        and old.reason == new.reason
        and old.sweep == new.sweep
        and before.spec.options.tags == after.spec.options.tags
        and len(before.attempts) == len(after.attempts)
    )


def _none(*_job: object) -> None:
    return None


def _encoded(view: wire.Job) -> bytes:
    """Return a view as JSON. Halves of characters, which no encoding has, must not stop the pool."""
    try:
        return msgspec.json.encode(view if view.named is None else data_of(view))
    except UnicodeEncodeError:
        return json.dumps(data_of(view)).encode("ascii")
