"""Event stream of the pool, limited to the events that the caller may see when they are sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta
from tornado.iostream import StreamClosedError

from springtide.hub_extension.api import intake
from springtide.hub_extension.api.endpoint import RoutedHandler
from springtide.hub_extension.api.jobs import job_seen_by
from springtide.hub_extension.api.routes import Pool, Route, Who
from springtide.hub_extension.service.relay import Piece, Reader, Relay, piece_of
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.problems import Busy
from springtide.scheduler.engine.views.events import data_of
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Event

HEARTBEAT_S: Final = 15.0
HEARTBEAT: Final = piece_of(b":\n\n")
RETRY_MS: Final = 2000
STALLED_S: Final = 10.0
"""Time after which the connection of a reader that takes no data is closed, in seconds.

A reader that connects again resumes from its last event.
"""
TRY_AGAIN_S: Final = 30
"""Value of ``Retry-After`` for a caller who has the maximum number of streams open, in seconds."""

EventId = Annotated[int, Meta(ge=0, le=1 << 53)]


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: events of one ``job`` or of all jobs, after ``last_event_id``.

    The stream begins with these, then with the present state of the job or the pool.

    The header ``Last-Event-ID`` takes precedence over ``last_event_id``.
    """

    job: str | None = None
    last_event_id: EventId | None = None


class EventsHandler(RoutedHandler):
    """Handler of event streams. The hub is asked for the caller's permissions again every ``recheck`` seconds."""

    ROUTE: ClassVar = Route(
        method="GET",
        path="/events",
        who=Who.LOGGED_IN,
        summary="Stream the pool's server-sent events, resuming after the header Last-Event-ID",
        query=EventsQuery,
        media="text/event-stream",
        jobs=True,
    )

    def initialize(self, *, pool: Pool, relay: Relay, recheck: float, **settings: Any) -> None:
        """Store the pool, the relay and the interval of the permission check, in seconds."""
        super().initialize(**settings)
        self.pool = pool
        self.relay = relay
        self.recheck = recheck

    async def prepare(self) -> None:
        """Check method, origin and caller."""
        if self.request.method in self.routes:
            self.check_origin()
        await super().prepare()

    async def get(self) -> None:
        """Send events until the reader disconnects, stalls, or loses the permission to read."""
        caller = self.caller
        query = intake.query_of(self.request.query_arguments, EventsQuery)
        after = self._last_event_id(query)
        if query.job is not None:
            await job_seen_by(self.pool, caller, query.job)
        with self.pool.streams.hold(caller.name, self._one_too_many):
            await self._stream(caller, query.job, after)

    def _one_too_many(self) -> Refusal:
        return Busy(
            "too_many_streams",
            f"You follow {self.pool.streams.most} event streams already, the most that one person may.",
            retry_after=TRY_AGAIN_S,
            hint="Close pages and notebooks that show jobs, or poll every few seconds instead.",
        )

    def _last_event_id(self, query: EventsQuery) -> int | None:
        header = self.request.headers.get("Last-Event-ID")
        if header is None:
            return query.last_event_id
        return int(intake.checked(header, EventId, "Last-Event-ID"))

    async def _stream(self, caller: Caller, job: str | None, after: int | None) -> None:
        chunked = self.request.version == "HTTP/1.1"
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("X-Accel-Buffering", "no")
        self.set_header("Connection", "close")
        if chunked:
            self.set_header("Transfer-Encoding", "chunked")
        self.flush()
        connection = self.detach()
        try:
            with self.relay.joined(connection, caller, job, chunked=chunked) as reader:
                source = self.pool.engine.events
                recorded = None if after is None else source.recorded(after)
                first = source.first() if job is None else await self._job_event(job)
                await self._begin(reader, recorded, first)
                await self._follow(reader)
            await _flush(reader, piece_of(b""))
        except (StreamClosedError, TimeoutError, Refusal):
            pass
        finally:
            connection.close()

    async def _job_event(self, job_id: str) -> Event:
        """Return the present state of a job, as an event. Raises `Refusal` 404 if it is no longer kept."""
        data = {**data_of(await self.pool.engine.job(job_id)), "source": ""}
        return Event(kind="job", data=data, at=self.pool.clock())

    async def _begin(self, reader: Reader, recorded: AsyncIterator[Sequence[Event]] | None, first: Event) -> None:
        """Send the recorded events that the reader missed, then ``first``: the state when they were read."""
        await _flush(reader, piece_of(b"retry: %d\n\n" % RETRY_MS))
        if recorded is not None:
            async for events in recorded:
                await self._send(reader, events)
        await self._send(reader, [first])
        self.relay.start(reader)

    async def _send(self, reader: Reader, events: Sequence[Event]) -> None:
        piece = self.relay.piece(events, reader.caller, reader.job)
        if piece is not None:
            await _flush(reader, piece)

    async def _follow(self, reader: Reader) -> None:
        """Keep the stream alive until the reader is gone or may not read. Raises `TimeoutError` if it stalls."""
        clock = asyncio.get_running_loop().time
        checked = clock()
        while not reader.gone.is_set():
            stalls = (clock() if reader.blocked_since is None else reader.blocked_since) + STALLED_S
            due = min(reader.sent_at + HEARTBEAT_S, checked + self.recheck, stalls)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.gone.wait(), max(0.0, due - clock()))
            if reader.blocked_since is not None and clock() >= reader.blocked_since + STALLED_S:
                raise TimeoutError
            if clock() >= checked + self.recheck:
                if not await self._still(reader):
                    return
                checked = clock()
            if reader.ready and clock() >= reader.sent_at + HEARTBEAT_S:
                reader.write(HEARTBEAT)

    async def _still(self, reader: Reader) -> bool:
        """Return whether the caller may still read; while the hub does not answer, the permission is kept."""
        try:
            caller = await self.identify()
        except Refusal as refusal:
            return refusal.status == 503
        if caller is None:
            return False
        self.relay.renew(reader, caller)
        return True


async def _flush(reader: Reader, piece: Piece) -> None:
    """Send a piece. Raises `TimeoutError` if the reader does not take it within `STALLED_S`."""
    await asyncio.wait_for(reader.flush(piece), STALLED_S)
