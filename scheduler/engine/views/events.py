"""The event stream: recorded events with ids to resume from, and transient ones without."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.store.records import EventRecord

MAX_QUEUED = 1_000
"""Maximum number of events that wait for one subscriber."""
PAGE = 500
"""Number of recorded events read from the store at once."""
REFETCH = wire.Event(kind="refetch", data={})
"""Tells a subscriber that it missed events and has to fetch again what it shows."""

ReadEvents = Callable[[int, int], Awaitable[list[EventRecord]]]
"""Returns recorded events with ids above the first argument, at most as many as the second one says."""


class Subscriber:
    """One reader of the stream, with a bounded queue."""

    def __init__(self) -> None:
        self._queue: deque[wire.Event] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def send(self, event: wire.Event) -> None:
        """Queue an event. When the queue is full, `REFETCH` replaces all that is in it."""
        if len(self._queue) >= MAX_QUEUED:
            self._queue.clear()
            self._queue.append(REFETCH)
        self._queue.append(event)
        self._arrived.set()

    def close(self) -> None:
        """End the stream after the queued events."""
        self._closed = True
        self._arrived.set()

    async def receive(self) -> wire.Event | None:
        """Return the next event, waiting for it; None after the last one."""
        while not self._queue:
            if self._closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._queue.popleft()


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
        for event in events:
            for subscriber in self._subscribers:
                subscriber.send(event)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.close()

    async def stream(
        self, after: int | None, newest: Callable[[], int], read: ReadEvents, first: Callable[[], wire.Event]
    ) -> AsyncGenerator[wire.Event, None]:
        """Yield recorded events with ids above ``after`` (none if it is None), then ``first()``, then new events.

        ``newest`` returns the id of the newest recorded event. A gap in the recorded events yields `REFETCH`.
        """
        subscriber = Subscriber()
        if self._closed:
            return
        self._subscribers.add(subscriber)
        self._stats.subscribers = len(self._subscribers)
        try:
            last = newest()
            if after is not None:
                async for event in _recorded(after, last, read):
                    last = max(last, event.id or 0)
                    yield event
            yield first()
            while (new_event := await subscriber.receive()) is not None:
                if new_event.id is None or new_event.id > last:
                    yield new_event
        finally:
            self._subscribers.discard(subscriber)
            self._stats.subscribers = len(self._subscribers)


async def _recorded(after: int, newest: int, read: ReadEvents) -> AsyncIterator[wire.Event]:
    if after > newest:
        yield REFETCH
        return
    while after < newest and (page := await read(after, PAGE)):
        if page[0].id > after + 1:
            yield REFETCH
        for record in page:
            yield event_of(record)
        after = page[-1].id


def event_of(record: EventRecord) -> wire.Event:
    """Return a recorded event as it is sent."""
    return wire.Event(kind=record.kind, data=msgspec.json.decode(record.data), id=record.id, at=record.at)
