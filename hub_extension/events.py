"""The event stream: what happens in the pool, as one caller may see it, for as long as she may see it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from springtide.hub_extension.api import intake, permissions, views
from springtide.hub_extension.api.routes import Pool, Route, Who
from springtide.hub_extension.caller import Caller
from springtide.hub_extension.handler import SiteHandler
from springtide.hub_extension.problems import unknown_caller
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Event, Job

HEARTBEAT_S: Final = 15.0
RETRY_MS: Final = 2000
STALLED_S: Final = 10.0
"""A reader that takes nothing for so long is let go; it resumes from its last event when it comes back."""
KNOWN_JOBS: Final = 10_000

EventId = Annotated[int, Meta(ge=0, le=1 << 53)]


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Events of one ``job`` or of all, after ``last_event_id``; the header ``Last-Event-ID`` goes before it."""

    job: str | None = None
    last_event_id: EventId | None = None


ROUTE = Route(
    "GET",
    "/events",
    "What happens, as server-sent events; resumes after the header Last-Event-ID",
    Who.LOGGED_IN,
    query=EventsQuery,
    media="text/event-stream",
)


class Filter:
    """What of the pool's events a caller gets to see."""

    def __init__(self, pool: Pool, caller: Caller, job: str | None) -> None:
        self._pool = pool
        self._job = job
        self._visible: dict[str, bool] = {}
        self.caller = caller

    def renew(self, caller: Caller) -> None:
        """The hub has been asked again; groups and rights may be others than before."""
        self.caller = caller
        self._visible.clear()

    def of(self, event: Event) -> Event | None:
        """The event as the caller may see it, None if it is none of her business."""
        if event.kind == "refetch":
            return event
        if event.kind == "pool":
            if self._job is not None:
                return None
            return msgspec.structs.replace(event, data=views.pool_data_for(self.caller, event.data))
        if event.kind == "admin":
            return event if self._job is None and self.caller.admin else None
        job_id = str(event.data.get("id") or event.data.get("job") or "")
        if self._job is not None and job_id != self._job:
            return None
        return event if self._sees(job_id, event.data) else None

    def _sees(self, job_id: str, data: dict[str, Any]) -> bool:
        if "user" in data and "project" in data:
            return permissions.may_see_of(self.caller, data["user"], data["project"])
        if job_id not in self._visible:
            if len(self._visible) >= KNOWN_JOBS:
                self._visible.clear()
            job = self._find(job_id)
            self._visible[job_id] = job is not None and permissions.may_see_job(self.caller, job)
        return self._visible[job_id]

    def _find(self, job_id: str) -> Job | None:
        try:
            return self._pool.engine.job(job_id)
        except Refusal:
            return None


def frame(event: Event) -> bytes:
    """An event as it goes over the line."""
    number = b"" if event.id is None else b"id: %d\n" % event.id
    return number + b"event: " + event.kind.encode() + b"\ndata: " + msgspec.json.encode(event.data) + b"\n\n"


class EventsHandler(SiteHandler):
    """``GET /events``. Asks the hub again about its caller every ``recheck`` seconds."""

    allowed = ("GET",)

    def initialize(self, *, pool: Pool, recheck: float, **settings: Any) -> None:
        """Take what the stream is made of."""
        super().initialize(**settings)
        self.pool = pool
        self.recheck = recheck
        self._gone = asyncio.Event()

    def prepare(self) -> None:
        """Only reading is possible here."""
        if self.request.method != "GET":
            raise HTTPError(405)

    def on_connection_close(self) -> None:
        """The reader has left."""
        self._gone.set()

    async def get(self) -> None:
        """Send events until the reader leaves, stalls, or may no longer read."""
        self.check_origin()
        caller = await self.identify()
        if caller is None:
            raise unknown_caller()
        query = intake.query_of(self.request.query_arguments, EventsQuery)
        shown = Filter(self.pool, caller, query.job)
        if query.job is not None:
            await self._check_job(caller, query.job)
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("X-Accel-Buffering", "no")
        events = self.pool.engine.subscribe(self._last_event_id(query))
        try:
            await self._send(b"retry: %d\n\n" % RETRY_MS)
            await self._relay(events, shown)
        except StreamClosedError:
            self._gone.set()
        except TimeoutError:
            self.request.connection.stream.close()  # type: ignore[union-attr]
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    def _last_event_id(self, query: EventsQuery) -> int | None:
        header = self.request.headers.get("Last-Event-ID")
        if header is None:
            return query.last_event_id
        return int(intake.checked(header, EventId, "Last-Event-ID"))

    async def _check_job(self, caller: Caller, job_id: str) -> None:
        if not permissions.may_see_job(caller, await self.pool.engine.find(job_id)):
            raise Refusal(404, "not_found", f"There is no job {job_id[:80]!r}.")

    async def _relay(self, events: AsyncIterator[Event], shown: Filter) -> None:
        clock = asyncio.get_running_loop().time
        gone = asyncio.ensure_future(self._gone.wait())
        following = asyncio.ensure_future(anext(events, None))
        checked = clock()
        try:
            while not self._gone.is_set():
                wait = min(HEARTBEAT_S, max(0.0, checked + self.recheck - clock()))
                await asyncio.wait({gone, following}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if clock() >= checked + self.recheck:
                    if not await self._still(shown):
                        return
                    checked = clock()
                if following.done():
                    event = following.result()
                    if event is None:
                        return
                    following = asyncio.ensure_future(anext(events, None))
                    visible = shown.of(event)
                    if visible is not None:
                        await self._send(frame(visible))
                elif not self._gone.is_set():
                    await self._send(b":\n\n")
        finally:
            for task in (gone, following):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    await task

    async def _still(self, shown: Filter) -> bool:
        """Whether the caller may still read; a hub that does not answer just now changes nothing."""
        try:
            caller = await self.identify()
        except Refusal as refusal:
            return refusal.status == 503
        if caller is None:
            return False
        shown.renew(caller)
        return True

    async def _send(self, data: bytes) -> None:
        """Write and see it go; a reader that does not take it in time is let go."""
        self.write(data)
        await asyncio.wait_for(self.flush(), STALLED_S)
