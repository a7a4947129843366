"""Event stream of the pool, limited to the events that the caller may see when they are sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from springtide.hub_extension.api import intake, permissions
from springtide.hub_extension.api.routes import Pool, Route, Who
from springtide.hub_extension.service.frames import Frames
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.handler import SiteHandler
from springtide.hub_extension.web.problems import Busy, unknown_caller
from springtide.scheduler.notifications import EVENT_KIND, Channel
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Event, Job

HEARTBEAT_S: Final = 15.0
PACE_S: Final = 0.1
"""Minimum time between two pieces of one stream, in seconds: events that come meanwhile are sent as one piece."""
RETRY_MS: Final = 2000
STALLED_S: Final = 10.0
"""Time after which the connection of a reader that takes no data is closed, in seconds.

A reader that connects again resumes from its last event.
"""
TRY_AGAIN_S: Final = 30
"""Value of ``Retry-After`` for a caller who has the maximum number of streams open, in seconds."""
KNOWN_JOBS: Final = 10_000

EventId = Annotated[int, Meta(ge=0, le=1 << 53)]


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: events of one ``job`` or of all jobs, after ``last_event_id``.

    The header ``Last-Event-ID`` takes precedence over ``last_event_id``.
    """

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
    """Filter of the pool's events by the permissions of one caller and, optionally, by job."""

    def __init__(self, pool: Pool, caller: Caller, job: str | None) -> None:
        self._pool = pool
        self._job = job
        self._visible: dict[str, bool] = {}
        self._visible_of: dict[tuple[str, str], bool] = {}
        self.caller = caller

    def renew(self, caller: Caller) -> None:
        """Replace the caller by the hub's latest answer, whose groups and permissions may have changed."""
        self.caller = caller
        self._visible.clear()
        self._visible_of.clear()

    async def shown(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that are sent to the caller; `Frames` removes names that the caller may not see."""
        shown = []
        for event in events:
            told = self._tells(event)
            if told or (told is None and await self._sees(str(event.data.get("job")))):
                shown.append(event)
        return shown

    def _tells(self, event: Event) -> bool | None:
        """Return whether the event is sent to the caller, None if that takes a look at the job."""
        if event.kind == "refetch":
            return True
        if event.kind in {"pool", "gpus"}:
            return self._job is None
        if event.kind == "admin":
            return self._job is None and self.caller.admin
        if event.kind == EVENT_KIND:
            return permissions.owns(self.caller, event.data["user"]) and Channel.BROWSER in event.data["channels"]
        data = event.data
        if self._job is not None and self._job != (data.get("id") or data.get("job")):
            return False
        if "user" not in data or "project" not in data:
            return None
        whose = data["user"], data["project"]
        if whose not in self._visible_of:
            self._visible_of[whose] = permissions.may_see_of(self.caller, *whose)
        return self._visible_of[whose]

    async def _sees(self, job_id: str) -> bool:
        if job_id not in self._visible:
            if len(self._visible) >= KNOWN_JOBS:
                self._visible.clear()
            job = await self._find(job_id)
            self._visible[job_id] = job is not None and permissions.may_see_job(self.caller, job)
        return self._visible[job_id]

    async def _find(self, job_id: str) -> Job | None:
        try:
            return await self._pool.engine.job(job_id)
        except Refusal:
            return None


class EventsHandler(SiteHandler):
    """``GET /events``. The hub is asked for the caller's permissions again every ``recheck`` seconds."""

    allowed = ("GET",)

    def initialize(self, *, pool: Pool, frames: Frames, recheck: float, **settings: Any) -> None:
        """Store the pool, the frames and the interval of the permission check, in seconds."""
        super().initialize(**settings)
        self.pool = pool
        self.frames = frames
        self.recheck = recheck
        self._gone = asyncio.Event()

    def prepare(self) -> None:
        """Raise `HTTPError` 405 for every method except GET."""
        if self.request.method != "GET":
            raise HTTPError(405)

    def on_connection_close(self) -> None:
        """Record that the reader has closed the connection."""
        self._gone.set()

    async def get(self) -> None:
        """Send events until the reader disconnects, stalls, or loses the permission to read."""
        self.check_origin()
        caller = await self.identify()
        if caller is None:
            raise unknown_caller()
        query = intake.query_of(self.request.query_arguments, EventsQuery)
        shown = Filter(self.pool, caller, query.job)
        if query.job is not None:
            await self._check_job(caller, query.job)
        with self.pool.streams.hold(caller.name, self._one_too_many):
            await self._stream(query, shown)

    def _one_too_many(self) -> Refusal:
        return Busy(
            "too_many_streams",
            f"You follow {self.pool.streams.most} event streams already, the most that one person may.",
            retry_after=TRY_AGAIN_S,
            hint="Close pages and notebooks that show jobs, or ask for what is new every few seconds instead.",
        )

    async def _stream(self, query: EventsQuery, shown: Filter) -> None:
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
        if not permissions.may_see_job(caller, await self.pool.engine.job(job_id)):
            raise Refusal(404, "not_found", f"There is no job {job_id[:80]!r}.")

    async def _relay(self, events: AsyncIterator[Sequence[Event]], shown: Filter) -> None:
        clock = asyncio.get_running_loop().time
        gone = asyncio.ensure_future(self._gone.wait())
        following = asyncio.ensure_future(anext(events, None))
        checked = sent = clock()
        try:
            while not self._gone.is_set():
                wait = max(0.0, min(sent + HEARTBEAT_S, checked + self.recheck) - clock())
                await asyncio.wait({gone, following}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if clock() >= checked + self.recheck:
                    if not await self._still(shown):
                        return
                    checked = clock()
                piece = b""
                if following.done():
                    received = following.result()
                    if received is None:
                        return
                    piece = await self._piece(received, shown)
                    following = asyncio.ensure_future(_after_pace(events))
                if not piece and clock() >= sent + HEARTBEAT_S:
                    piece = b":\n\n"
                if piece and not self._gone.is_set():
                    await self._send(piece)
                    sent = clock()
        finally:
            for task in (gone, following):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    await task

    async def _piece(self, events: Sequence[Event], shown: Filter) -> bytes:
        """Return those of the events that the caller may see, encoded."""
        return b"".join([self.frames.frame(event, shown.caller) for event in await shown.shown(events)])

    async def _still(self, shown: Filter) -> bool:
        """Return whether the caller may still read; while the hub does not answer, the permission is kept."""
        try:
            caller = await self.identify()
        except Refusal as refusal:
            return refusal.status == 503
        if caller is None:
            return False
        shown.renew(caller)
        return True

    async def _send(self, data: bytes) -> None:
        """Write the data and flush it. Raises `TimeoutError` if the reader does not take it within `STALLED_S`."""
        self.write(data)
        await asyncio.wait_for(self.flush(), STALLED_S)


async def _after_pace(events: AsyncIterator[Sequence[Event]]) -> Sequence[Event] | None:
    await asyncio.sleep(PACE_S)
    return await anext(events, None)
