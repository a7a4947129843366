"""The event stream: recorded events with ids to resume from, and transient ones without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.store.records import EventRecord
from springtide.scheduler.wire.jobs import NAMED

MAX_QUEUED = 1_000
"""Maximum number of subjects of which an event waits for one subscriber."""
PAGE = 500
"""Number of recorded events read from the store at once."""
REFETCH = wire.Event(kind="refetch", data={})
"""Says that a subscriber missed events and has to fetch again what it shows."""

ReadEvents = Callable[[int, int], Awaitable[list[EventRecord]]]
"""Returns recorded events with ids above the first argument, at most as many as the second one says."""


Subject: TypeAlias = tuple[str, object, object]
"""The subject of an event: its kind, its job, and the rank of a log."""


class Subscriber:
    """One reader of the events, with a bounded queue; ``notify`` is called when some are queued, and at the end.

    An event replaces a queued one about the same subject: each has the complete state, so a slow reader misses
    only outdated ones.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._queue: dict[Subject, wire.Event] = {}
        self._notify = notify
        self.closed = False

    def send(self, events: Iterable[tuple[Subject, wire.Event]]) -> None:
        """Queue events by subject. When too many subjects are queued, `REFETCH` replaces all of them."""
        queue = self._queue
        for subject, event in events:
            queue.pop(subject, None)
            if len(queue) >= MAX_QUEUED:
                queue.clear()
                queue[_MISSED] = REFETCH
            queue[subject] = event
        self._notify()

    def close(self) -> None:
        """End the stream after the queued events."""
        self.closed = True
        self._notify()

    def take(self) -> list[wire.Event]:
        """Return the queued events, and queue them no longer."""
        taken = list(self._queue.values())
        self._queue.clear()
        return taken


def by_subject(events: Iterable[wire.Event]) -> list[tuple[Subject, wire.Event]]:
    """Return events with what each is about."""
    return [(subject_of(event), event) for event in events]


def subject_of(event: wire.Event) -> Subject:
    """Return what an event is about."""
    return event.kind, event.data.get("id") or event.data.get("job"), event.data.get("rank")


_MISSED = subject_of(REFETCH)


class EventHub:
    """All subscribers of the events. Sending never waits for a subscriber."""

    def __init__(self) -> None:
        self._subscribers: set[Subscriber] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, subscriber: Subscriber) -> None:
        """Send all events from now on to a subscriber; none after the end."""
        self._subscribers.add(subscriber)
        if self._closed:
            subscriber.close()

    def discard(self, subscriber: Subscriber) -> None:
        """Send a subscriber nothing more."""
        self._subscribers.discard(subscriber)

    def publish(self, events: Iterable[wire.Event]) -> None:
        """Send events to every subscriber."""
        sent = by_subject(events)
        for subscriber in self._subscribers if sent else ():
            subscriber.send(sent)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.close()


@dataclass(frozen=True, slots=True)
class EventSource:
    """The events as readers follow them, those that are recorded included.

    ``newest`` returns the id of the newest recorded event, ``read`` pages of them, ``first`` the event with which
    new ones begin. ``stats`` counts the readers.
    """

    hub: EventHub
    newest: Callable[[], int]
    read: ReadEvents
    first: Callable[[], wire.Event]
    stats: Stats

    def recorded(self, after: int) -> AsyncIterator[Sequence[wire.Event]]:
        """Return the events recorded up to now with ids above ``after``, by pages; `REFETCH` marks a gap."""
        return _recorded(after, self.newest(), self.read)

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Count one reader more in this context."""
        self.stats.subscribers += 1
        try:
            yield
        finally:
            self.stats.subscribers -= 1

    async def stream(self, after: int | None) -> AsyncGenerator[Sequence[wire.Event], None]:
        """Yield recorded events with ids above ``after`` (none if it is None), then ``first()``, then new events.

        Yields all events that wait at a time, so that a reader handles them at once.
        """
        arrived = asyncio.Event()
        subscriber = Subscriber(arrived.set)
        self.hub.add(subscriber)
        with self.followed():
            try:
                if after is not None:
                    async for recorded in self.recorded(after):
                        yield recorded
                if not subscriber.closed:
                    yield [self.first()]
                while (received := subscriber.take()) or not subscriber.closed:
                    if received:
                        yield received
                    else:
                        arrived.clear()
                        await arrived.wait()
            finally:
                self.hub.discard(subscriber)


async def _recorded(after: int, newest: int, read: ReadEvents) -> AsyncIterator[Sequence[wire.Event]]:
    if after > newest:
        yield [REFETCH]
        return
    while after < newest and (page := await read(after, min(PAGE, newest - after))):
        missed = [REFETCH] if page[0].id > after + 1 else []
        yield [*missed, *(event_of(record) for record in page if record.id <= newest)]
        after = page[-1].id


def event_of(record: EventRecord) -> wire.Event:
    """Return a recorded event as it is sent."""
    return wire.Event(kind=record.kind, data=msgspec.json.decode(record.data), id=record.id, at=record.at)


def data_of(view: wire.Job) -> dict[str, Any]:
    """Return a job as the data of an event, with what names jobs of other projects beside it (`NAMED`)."""
    data: dict[str, Any] = msgspec.to_builtins(view)
    if view.named is not None:
        fields = {name: msgspec.to_builtins(value) for name, value in view.named.fields.items()}
        data[NAMED] = {"projects": sorted(view.named.projects), "fields": fields}
    return data
