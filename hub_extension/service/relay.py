"""Distribution of events to the open streams: each piece is made once for all readers with the same view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from tornado.concurrent import Future
from tornado.iostream import IOStream, StreamClosedError

from springtide.hub_extension.api import job_names, permissions
from springtide.hub_extension.api.permissions import visible_projects
from springtide.hub_extension.api.views import NodeEncoder
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.engine.views.events import EventSource, Subscriber, by_subject
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.notifications import EVENT_KIND, ON_PAGES
from springtide.scheduler.wire import Event

KEPT_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of all cached frames, in bytes; streams are seldom further behind than the last few events."""

Audience: TypeAlias = "tuple[str, frozenset[str]] | bool | None"
"""Readers with the same view of an event; None is all readers who may see the event."""


SPAWNER = "/"
"""Audience of the hub's spawner; no person has such a name."""


PACE_S: Final = 0.1
"""Minimum time between two pieces of one stream, in seconds: events that come meanwhile are sent as one piece."""
PACE_OF_READER_S: Final = 0.001
"""Minimum time between two pieces for each reader, in seconds: writing to one takes a twentieth of it."""
MAX_PACE_S: Final = 0.5
"""Time between two pieces of a stream with the most readers, in seconds."""
READERS_AT_ONCE: Final = 16
"""Number of readers that are written to before other work of the event loop has its turn."""
_NONE: Final[frozenset[str]] = frozenset()


class Frames:
    """Encoder of events, with a cache of the latest frames for the other readers of the same audience."""

    def __init__(self, nodes: NodeEncoder | None = None, kept_bytes: int = KEPT_BYTES) -> None:
        self._nodes = nodes or NodeEncoder()
        self._kept: LruCache[tuple[int, Audience], tuple[Event, bytes]] = LruCache(
            kept_bytes, lambda kept: len(kept[1])
        )
        self._holdings: tuple[Event, dict[str, frozenset[str]]] | None = None
        self.encoded = 0

    def frame(self, event: Event, caller: Caller) -> bytes:
        """Return the event encoded for ``caller``, who must be permitted to see it."""
        audience = self._audience(event, caller)
        key = id(event), audience
        kept = self._kept.get(key)
        if kept is not None:  # the cache keeps the event alive, so no other object has its id
            return kept[1]
        data: Mapping[str, Any] = event.data
        if event.kind == "pool":
            data = self._nodes.pool(caller, data)
        elif event.kind == "job":
            data = job_names.event_for(data, named=audience is True)
        number = b"" if event.id is None else b"id: %d\n" % event.id
        encoded = number + b"event: " + event.kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
        self.encoded += 1
        self._kept.put(key, (event, encoded))
        return encoded

    def _audience(self, event: Event, caller: Caller) -> Audience:
        """Return the caller's audience for an event.

        Events of the pool and of jobs differ between readers: they name jobs to those who may see these. Callers
        who see the same projects see the same, unless they hold GPUs outside of these.
        """
        if event.kind == "job" and (projects := job_names.projects_named(event.data)):
            return permissions.may_see_jobs_of(caller, projects)
        if event.kind != "pool":
            return None
        visible = visible_projects(caller)
        if visible is None:
            return None
        if caller.spawner:
            return SPAWNER, visible
        narrow = caller.service or caller.job is not None
        held = frozenset[str]() if narrow else self.holdings(event).get(caller.name, frozenset())
        return caller.name if held - visible else "", visible

    def holdings(self, event: Event) -> dict[str, frozenset[str]]:
        """Return the projects in which each user holds GPUs, of a ``pool`` event."""
        if self._holdings is None or self._holdings[0] is not event:
            self._holdings = event, self._nodes.projects_by_user(event.data["nodes"])
        return self._holdings[1]


Group: TypeAlias = tuple[Caller, str | None]
"""The common rights of readers, as a caller without a name, and the job that they follow."""


class Piece(NamedTuple):
    """Data of a stream: as it is, and as a chunk of an answer whose length is not known."""

    plain: bytes
    chunk: bytes


def piece_of(plain: bytes) -> Piece:
    """Return data as a piece. Without data it is the end of the answer."""
    return Piece(plain, b"%x\r\n%b\r\n" % (len(plain), plain))


class Reader:
    """An open stream of a caller, of one ``job`` or of all. Times are those of the event loop.

    Events wait until `Relay.start`, and while the reader has not taken the data written before; ``taken`` is
    called when it has. ``sent_at`` is the time of the latest piece, ``blocked_since`` the time since which the
    reader takes nothing, None if it has taken all. ``gone`` is set when the reader or the pool ends the stream.
    """

    def __init__(
        self,
        stream: IOStream,
        caller: Caller,
        job: str | None,
        taken: Callable[[Reader], None],
        *,
        chunked: bool,
    ) -> None:
        self._stream = stream
        self._chunked = chunked
        self._notify_taken = taken
        self._clock = asyncio.get_running_loop().time
        self.caller = caller
        self.job = job
        self.started = False
        self.waiting: Subscriber | None = None
        self.gone = asyncio.Event()
        self.sent_at = self._clock()
        self.blocked_since: float | None = None
        stream.set_close_callback(self.gone.set)

    @property
    def group(self) -> Group:
        """Readers with the same view, apart from their own jobs and workspaces."""
        return replace(self.caller, name="", token=""), self.job

    @property
    def ready(self) -> bool:
        """Whether a piece can be written and no event waits."""
        return self.started and self.waiting is None and self.blocked_since is None

    def wait(self, events: Sequence[Event]) -> None:
        """Have events wait; a newer one about the same replaces one that waits."""
        if self.waiting is None:
            self.waiting = Subscriber(_nothing)
        self.waiting.send(by_subject(events))

    def write(self, piece: Piece) -> None:
        """Write a piece without waiting for the reader."""
        try:
            written = self._write(piece)
        except StreamClosedError:
            self.gone.set()
            return
        if not written.done():
            self.blocked_since = self.sent_at
            written.add_done_callback(self._taken)

    async def flush(self, piece: Piece) -> None:
        """Write a piece and wait until the reader has taken it. Raises `StreamClosedError`."""
        await self._write(piece)

    def _write(self, piece: Piece) -> Future[None]:
        self.sent_at = self._clock()
        return self._stream.write(piece.chunk if self._chunked else piece.plain)

    def _taken(self, written: Future[None]) -> None:
        self.blocked_since = None
        if not written.cancelled() and written.exception() is None:
            self._notify_taken(self)


class Relay:
    """Sends the pool's events to all readers, to each only those that the caller may see."""

    def __init__(self, source: EventSource, frames: Frames) -> None:
        self._source = source
        self._frames = frames
        self._readers: dict[Reader, Group] = {}
        self._unsent: dict[Reader, list[_Batch]] = {}
        self._news = Subscriber(self._arrived)
        self._timer: asyncio.TimerHandle | None = None
        self._next: asyncio.Handle | None = None
        self._sent_at = 0.0

    # ---------- readers

    @contextmanager
    def joined(self, stream: IOStream, caller: Caller, job: str | None, *, chunked: bool) -> Iterator[Reader]:
        """Have a reader in this context, for whom all events from now on wait until `start`."""
        reader = Reader(stream, caller, job, self._catch_up, chunked=chunked)
        if not self._readers:
            self._source.hub.add(self._news)
        self._take_news()  # what happened before now is for the others
        self._readers[reader] = reader.group
        try:
            with self._source.followed():
                if self._news.closed:
                    reader.gone.set()
                yield reader
        finally:
            del self._readers[reader]
            self._unsent.pop(reader, None)
            if not self._readers:
                self._source.hub.discard(self._news)
                self._news.take()

    def start(self, reader: Reader) -> None:
        """Send the reader the events that wait, and new ones as they come."""
        reader.started = True
        self._catch_up(reader)

    def renew(self, reader: Reader, caller: Caller) -> None:
        """Replace the reader's caller by the hub's latest answer, whose rights may have changed."""
        reader.caller = caller
        self._readers[reader] = reader.group

    # ---------- events

    def _arrived(self) -> None:
        if self._timer is None:
            running = asyncio.get_running_loop()
            self._timer = running.call_at(max(running.time(), self._sent_at + self._pace()), self._take_news)

    def _pace(self) -> float:
        return min(MAX_PACE_S, max(PACE_S, len(self._readers) * PACE_OF_READER_S))

    def _take_news(self) -> None:
        """Queue the new events for all present readers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if events := self._news.take():
            running = asyncio.get_running_loop()
            self._sent_at = running.time()
            batch = _Batch(events, self._frames)
            for reader in self._readers:
                self._unsent.setdefault(reader, []).append(batch)
            if self._next is None:
                self._next = running.call_soon(self._send_to_some)
        if self._news.closed:
            while self._unsent:
                self._send_to_some()
            for reader in self._readers:
                reader.gone.set()

    def _send_to_some(self) -> None:
        """Send the next readers their unsent events, the others after other work."""
        self._next = None
        for reader in list(islice(self._unsent, READERS_AT_ONCE)):
            for batch in self._unsent.pop(reader):
                self._send(batch, reader)
        if self._unsent:
            self._next = asyncio.get_running_loop().call_soon(self._send_to_some)

    def _send(self, batch: _Batch, reader: Reader) -> None:
        if not reader.ready:
            reader.wait(batch.events)
            return
        piece = batch.piece(reader.caller, self._readers[reader])
        if piece is not None:
            reader.write(piece)

    def _catch_up(self, reader: Reader) -> None:
        """Send the reader the events that have waited."""
        if reader.waiting is None or not reader.started or reader.blocked_since is not None:
            return
        events, reader.waiting = reader.waiting.take(), None
        piece = self.piece(events, reader.caller, reader.job)
        if piece is not None:
            reader.write(piece)

    def piece(self, events: Sequence[Event], caller: Caller, job: str | None) -> Piece | None:
        """Return the events of the job, or of all, that the caller may see, as a piece; None if there are none."""
        return piece_for(events, caller, job, self._frames)


def piece_for(events: Sequence[Event], caller: Caller, job: str | None, frames: Frames) -> Piece | None:
    """Return the events of the job, or of all, that the caller may see, as a piece; None if there are none."""
    shown = [frames.frame(event, caller) for event in events if is_shown(event, caller, job)]
    return piece_of(b"".join(shown)) if shown else None


class _Batch:
    """Events that are sent together, as pieces that are made once for all readers with the same view."""

    def __init__(self, events: Sequence[Event], frames: Frames) -> None:
        self.events = events
        self._frames = frames
        self._own = _Own(events, frames)
        self._shared: dict[Group, tuple[Piece | None, frozenset[str] | None]] = {}
        self._personal: dict[tuple[Group, str], Piece | None] = {}

    def piece(self, caller: Caller, group: Group) -> Piece | None:
        """Return the piece for a caller in a group of readers, None if nothing of it is for the caller."""
        rights, job = group
        if group not in self._shared:
            piece = piece_for(self.events, rights, job, self._frames)
            self._shared[group] = piece, permissions.visible_projects(rights)
        shared, visible = self._shared[group]
        if not self._own.concern(caller.name, visible):
            return shared
        key = group, caller.name
        if key not in self._personal:
            self._personal[key] = piece_for(self.events, caller, job, self._frames)
        return self._personal[key]


class _Own:
    """The people whose own things appear in events: they may see more than others with the same rights."""

    def __init__(self, events: Sequence[Event], frames: Frames) -> None:
        self._projects: dict[str, set[str]] = {}
        self._notified: set[str] = set()
        for event in events:
            if event.kind == "pool":
                for user, projects in frames.holdings(event).items():
                    self._projects.setdefault(user, set()).update(projects)
            elif event.kind == EVENT_KIND:
                self._notified.add(event.data["user"])
            elif "user" in event.data:
                self._projects.setdefault(event.data["user"], set()).add(event.data["project"])

    def concern(self, name: str, visible: frozenset[str] | None) -> bool:
        """Return whether some events of a person are not visible to everybody who sees ``visible``."""
        if name in self._notified:
            return True
        return visible is not None and not self._projects.get(name, _NONE) <= visible


def is_shown(event: Event, caller: Caller, job: str | None) -> bool:
    """Return whether an event is sent to the caller in a stream of a job, or of all; `Frames` removes names."""
    if event.kind == "refetch":
        return True
    if event.kind in {"pool", "gpus"}:
        return job is None
    if event.kind == "admin":
        return job is None and caller.administers_some
    data = event.data
    if event.kind == EVENT_KIND:
        on_pages = not ON_PAGES.isdisjoint(data["channels"])
        return on_pages and caller.job is None and permissions.owns(caller, data["user"])
    if job is not None and job != (data.get("id") or data.get("job")):
        return False
    return permissions.may_see_of(caller, data["user"], data["project"])


def _nothing() -> None:
    pass
