"""One job, kept up to date by the pool's events."""

from __future__ import annotations

import threading
from typing import Final

import msgspec
from msgspec.structs import replace

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Event, FoundCheckpoint, Job, JobUsage, Progress

FINAL: Final = frozenset({"succeeded", "failed", "cancelled"})
"""The states after which a job does not change."""


class LiveJob:
    """The newest known version of a job, updated from events; fetched only if some were missed.

    `hear` and `forget` may be called while `current` waits for an answer.
    """

    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self._id = job_id
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._heard = 0
        self._is_stale = True

    def concerns(self, event: Event) -> bool:
        """Return whether the event is about this job."""
        return self._id == event.data.get("id", event.data.get("job"))

    def hear(self, event: Event) -> bool:
        """Handle an event; return whether it changes the job."""
        if event.kind not in {"job", "progress", "usage"} or not self.concerns(event):
            return False
        with self._lock:
            if event.kind == "job":
                newer = msgspec.convert(event.data, Job)
                self._job = newer if self._job is None else merged(self._job, newer)
            elif self._job is not None:
                self._job = (progressed if event.kind == "progress" else used)(self._job, event)
            self._heard += 1
            self._is_stale |= self._job is None
        return True

    def forget(self) -> None:
        """Note that events may have been missed: `current` fetches the job."""
        with self._lock:
            self._is_stale = True

    def current(self) -> Job:
        """Return the job, fetched if necessary. Raises the client's errors."""
        with self._lock:
            heard, job = self._heard, self._job
            if not self._is_stale and job is not None:
                return job
            self._is_stale = False
        try:
            fetched = self._client.job(self._id)
        except Exception:
            self.forget()
            raise
        with self._lock:
            overtaken = self._heard != heard and self._job is not None
            self._job = merged(fetched, self._job) if overtaken and self._job is not None else fetched
            return self._job


def merged(older: Job, newer: Job) -> Job:
    """Return the newer version, which comes from an event, with the fields that events leave out."""
    first = newer.attempts[0].number if newer.attempts else 0
    earlier = [attempt for attempt in older.attempts if attempt.number < first]
    return replace(newer, source=older.source, attempts=[*earlier, *newer.attempts])


def used(job: Job, event: Event) -> Job:
    """Return the job with the use of its GPUs from an event."""
    return replace(job, usage=msgspec.convert(event.data["usage"], JobUsage))


def progressed(job: Job, event: Event) -> Job:
    """Return the job with the progress from an event."""
    data = event.data
    return replace(
        job,
        progress=msgspec.convert(data["progress"], Progress),
        saved=data.get("saved", job.saved),
        saved_step=data.get("saved_step", job.saved_step),
        checkpoint=msgspec.convert(data.get("checkpoint"), FoundCheckpoint | None),
    )
