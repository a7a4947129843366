"""What subscribers and waiting readers hear of a tick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import islice

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine import views
from springtide.scheduler.engine.events import Events, event_of
from springtide.scheduler.engine.knowledge import Knowledge
from springtide.scheduler.engine.tick import Tick
from springtide.scheduler.store.records import EventRecord, JobRecord

REFRESH = 0.25
"""Seconds in which changes of what only the pool's state explains are gathered into one event."""
REFRESHED_JOBS = 200
"""Jobs whose reasons are looked at again at once; the others' show when they are asked for."""


class Broadcast:
    """Turns ticks into events. Only events about a job's own changes are kept; the others pass."""

    def __init__(self, knowledge: Knowledge, events: Events, clock: Callable[[], float]) -> None:
        self._knowledge = knowledge
        self._events = events
        self._clock = clock
        self._refresh: asyncio.TimerHandle | None = None
        self._shown: dict[str, tuple[object, ...]] = {}
        self._readers: dict[str, set[asyncio.Event]] = {}

    def close(self) -> None:
        """End every stream, and let everybody who waits for a log go."""
        if self._refresh is not None:
            self._refresh.cancel()
        self._events.close()
        for job_id in self._readers:
            self._log_grew(job_id)

    # ---------- before the commit

    def kept(self, tick: Tick) -> list[EventRecord]:
        """The events to be written with the tick."""
        draft, world = tick.draft, self._knowledge.world
        lens = self._knowledge.lens_of(draft.borrowing())
        brief = views.Lens(lens.labels, lens.borrowing, _nothing, _nothing, _nothing)
        records: list[EventRecord] = []
        for job in draft.jobs.values():
            if _same(world.jobs.get(job.id), job):
                continue
            view = views.job(job, lens if len(records) < REFRESHED_JOBS else brief, draft.now, full=False)
            records.append(
                EventRecord(world.last_event + len(records) + 1, draft.now, "job", msgspec.json.encode(view))
            )
        if draft.projects or draft.people:
            records.append(EventRecord(world.last_event + len(records) + 1, draft.now, "admin", b"{}"))
        return records

    # ---------- after it

    def tell(self, tick: Tick, records: list[EventRecord]) -> None:
        """Hand out what was written, and what passes."""
        for job in tick.draft.jobs.values():
            if job.state.final:
                self._shown.pop(job.id, None)
                self._log_grew(job.id)
        for grown in tick.logs:
            self._log_grew(grown.job)
        if not self._events:
            return
        now = tick.draft.now
        self._events.publish(event_of(record) for record in records)
        self._events.publish(self._progress(tick.progress, now))
        self._events.publish(
            wire.Event(kind="log", data={"job": log.job, "rank": log.rank, "size": log.size}, at=now)
            for log in tick.logs
        )
        if (tick.draft.hard or tick.nodes) and self._refresh is None:
            self._refresh = asyncio.get_running_loop().call_later(REFRESH, self._show_changes)

    def _progress(self, jobs: Iterable[str], now: float) -> Iterable[wire.Event]:
        for job_id in dict.fromkeys(jobs):
            job = self._knowledge.world.jobs.get(job_id)
            if job is not None:
                data = {
                    "job": job_id,
                    "user": job.spec.user,
                    "project": job.spec.project,
                    "progress": msgspec.to_builtins(views.progress(job)),
                    "saved": job.standing.saved,
                    "saved_step": job.standing.saved_step,
                }
                yield wire.Event(kind="progress", data=data, at=now)

    def _show_changes(self) -> None:
        """Passing events for jobs whose reason, place or borrowed GPUs changed, and for the pool."""
        self._refresh = None
        if not self._events:
            return
        now = self._clock()
        lens = self._knowledge.lens()
        changed = []
        jobs = (job for job in self._knowledge.world.jobs.values() if not job.standing.held)
        for job in islice(jobs, REFRESHED_JOBS):
            reason = views.job_reason(job, lens)
            shown = (reason.text if reason is not None else "", lens.place(job.id), lens.borrowing.of(job))
            if self._shown.get(job.id) != shown:
                self._shown[job.id] = shown
                data = msgspec.to_builtins(views.job(job, lens, now, full=False))
                changed.append(wire.Event(kind="job", data=data, at=now))
        self._events.publish(changed)
        self._events.publish([self.pool_event()])

    def show(self, job_ids: Collection[str]) -> None:
        """Passing events for jobs of which something changed that is not their own."""
        if not self._events:
            return
        now, lens = self._clock(), self._knowledge.lens()
        jobs = (job for job_id in job_ids if (job := self._knowledge.world.jobs.get(job_id)) is not None)
        self._events.publish(
            wire.Event(kind="job", data=msgspec.to_builtins(views.job(job, lens, now, full=False)), at=now)
            for job in islice(jobs, REFRESHED_JOBS)
        )

    def pool_event(self) -> wire.Event:
        """The pool as it is now."""
        return wire.Event(kind="pool", data=msgspec.to_builtins(self._knowledge.pool()), at=self._clock())

    # ---------- logs

    async def log_growth(self, job_id: str, wait: float) -> None:
        """Wait until a job's log grew or it ended, at most ``wait`` seconds."""
        reader = asyncio.Event()
        self._readers.setdefault(job_id, set()).add(reader)
        try:
            async with asyncio.timeout(wait):
                await reader.wait()
        except TimeoutError:
            return
        finally:
            self._readers[job_id].discard(reader)
            if not self._readers[job_id]:
                del self._readers[job_id]

    def _log_grew(self, job_id: str) -> None:
        for reader in self._readers.get(job_id, ()):
            reader.set()


def _same(before: JobRecord | None, after: JobRecord) -> bool:
    """Whether only progress was reported, which has events of its own."""
    if before is None:
        return False
    old, new = before.standing, after.standing
    return (
        old.state is new.state
        and old.attempt == new.attempt
        and old.held == new.held
        and old.reason == new.reason
        and len(before.attempts) == len(after.attempts)
    )


def _nothing(_job_id: str) -> None:
    return None
