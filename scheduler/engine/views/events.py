"""The event stream: recorded events with ids to resume from, and transient ones without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.store.records import EventRecord

MAX_QUEUED = 1_000
"""Maximum number of subjects of which an event waits for one subscriber."""
PAGE = 500
"""Number of recorded events read from the store at once."""
REFETCH = wire.Event(kind="refetch", data={})
"""Tells a subscriber that it missed events and has to fetch again what it shows."""

ReadEvents = Callable[[int, int], Awaitable[list[EventRecord]]]
"""Returns recorded events with ids above the first argument, at most as many as the second one says."""


Subject: TypeAlias = tuple[str, object, object]
"""What an event is about: its kind, its job, and the rank of a log."""


class Subscriber:
    """One reader of the stream, with a bounded queue.

    An event replaces a queued one about the same: each tells how its subject is, so a slow reader misses only what
    is out of date.
    """

    def __init__(self) -> None:
        self._queue: dict[Subject, wire.Event] = {}
        self._arrived = asyncio.Event()
        self._closed = False

    def send(self, events: Iterable[tuple[Subject, wire.Event]]) -> None:
        """Queue events by subject. When too many subjects are queued, `REFETCH` replaces all of them."""
        queue = self._queue
        for subject, event in events:
            queue.pop(subject, None)
            if len(queue) >= MAX_QUEUED:
                queue.clear()
                queue[_MISSED] = REFETCH
            queue[subject] = event
        self._arrived.set()

    def close(self) -> None:
        """End the stream after the queued events."""
        self._closed = True
        self._arrived.set()

    async def receive(self) -> list[wire.Event]:
        """Return the queued events, waiting for one; none after the last ones."""
        while not self._queue and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        received = list(self._queue.values())
        self._queue.clear()
        return received


def subject_of(event: wire.Event) -> Subject:
    """Return what an event is about."""
    return event.kind, event.data.get("id") or event.data.get("job"), event.data.get("rank")


_MISSED = subject_of(REFETCH)


class EventHub:
    """All subscribers of the event stream. Sending never waits for a subscriber."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._subscribers: set[Subscriber] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._subscribers)

    def publish(self, events: Iterable[wire.Event]) -> None:
        """Send events to every subscriber."""
        sent = [(subject_of(event), event) for event in events]
        for subscriber in self._subscribers if sent else ():
            subscriber.send(sent)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.close()

    async def stream(
        self, after: int | None, newest: Callable[[], int], read: ReadEvents, first: Callable[[], wire.Event]
    ) -> AsyncGenerator[Sequence[wire.Event], None]:
        """Yield recorded events with ids above ``after`` (none if it is None), then ``first()``, then new events.

        Yields all events that wait at a time, so that a reader handles them at once. ``newest`` returns the id of
        the newest recorded event. A gap in the recorded events yields `REFETCH`.
        """
        subscriber = Subscriber()
        if self._closed:
            return
        self._subscribers.add(subscriber)
        self._stats.subscribers = len(self._subscribers)
        try:
            last = newest()
            if after is not None:
                async for recorded in _recorded(after, last, read):
                    last = max(last, recorded[-1].id or 0)
                    yield recorded
            yield [first()]
            while received := await subscriber.receive():
                if new := [event for event in received if event.id is None or event.id > last]:
                    yield new
        finally:
            self._subscribers.discard(subscriber)
            self._stats.subscribers = len(self._subscribers)


async def _recorded(after: int, newest: int, read: ReadEvents) -> AsyncIterator[Sequence[wire.Event]]:
    if after > newest:
        yield [REFETCH]
        return
    while after < newest and (page := await read(after, PAGE)):
        missed = [REFETCH] if page[0].id > after + 1 else []
        yield [*missed, *map(event_of, page)]
        after = page[-1].id


def event_of(record: EventRecord) -> wire.Event:
    """Return a recorded event as it is sent."""
    return wire.Event(kind=record.kind, data=msgspec.json.decode(record.data), id=record.id, at=record.at)
