"""The event stream: kept events with ids to resume from, passing ones without; nobody slows the engine down."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.store.records import EventRecord

QUEUE = 1_000
PAGE = 500
REFETCH = wire.Event(kind="refetch", data={})
"""Tells a subscriber that it missed something: ask again for what is shown."""

ReadEvents = Callable[[int, int], Awaitable[list[EventRecord]]]


class Subscriber:
    """One reader of the stream, with a bounded queue."""

    def __init__(self) -> None:
        self._queue: deque[wire.Event] = deque()
        self._some = asyncio.Event()
        self._closed = False

    def put(self, event: wire.Event) -> None:
        """Queue an event; a reader that is too slow gets one `REFETCH` instead of all it missed."""
        if len(self._queue) >= QUEUE:
            self._queue.clear()
            self._queue.append(REFETCH)
        self._queue.append(event)
        self._some.set()

    def close(self) -> None:
        """No more events will come."""
        self._closed = True
        self._some.set()

    async def get(self) -> wire.Event | None:
        """The next event, None after the last."""
        while not self._queue:
            if self._closed:
                return None
            self._some.clear()
            await self._some.wait()
        return self._queue.popleft()


class Events:
    """All subscribers of the stream."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._subscribers: set[Subscriber] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._subscribers)

    def publish(self, events: Iterable[wire.Event]) -> None:
        """Hand events to everybody who listens."""
        for event in events:
            for subscriber in self._subscribers:
                subscriber.put(event)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.close()

    async def stream(
        self, after: int | None, newest: Callable[[], int], read: ReadEvents, first: Callable[[], wire.Event]
    ) -> AsyncGenerator[wire.Event, None]:
        """Kept events after ``after`` (None: from now on), then ``first()``, then what comes.

        ``newest`` tells the id of the newest kept event. A gap shows as `REFETCH`.
        """
        subscriber = Subscriber()
        if self._closed:
            return
        self._subscribers.add(subscriber)
        self._stats.subscribers = len(self._subscribers)
        try:
            last = newest()
            if after is not None:
                async for event in _kept(after, last, read):
                    last = max(last, event.id or 0)
                    yield event
            yield first()
            while (event_or_end := await subscriber.get()) is not None:
                if event_or_end.id is None or event_or_end.id > last:
                    yield event_or_end
        finally:
            self._subscribers.discard(subscriber)
            self._stats.subscribers = len(self._subscribers)


async def _kept(after: int, newest: int, read: ReadEvents) -> AsyncIterator[wire.Event]:
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
    """A kept event as it is sent."""
    return wire.Event(kind=record.kind, data=msgspec.json.decode(record.data), id=record.id, at=record.at)
