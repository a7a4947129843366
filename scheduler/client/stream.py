"""The pool's events without end: read them, and after a lost connection read on from the last one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from httpx_sse import ServerSentEvent

from springtide.scheduler.backoff import Backoff
from springtide.scheduler.client.errors import PoolError, Unreachable
from springtide.scheduler.client.transport import Transport
from springtide.scheduler.wire import Event

SILENCE_S: Final = 45.0
"""Time without a byte after which a connection counts as lost; the service sends a heartbeat every 15 seconds."""
MAX_EVENT_BYTES: Final = 32 * 2**20
"""Maximum size of one event."""
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 15.0
FINAL: Final = frozenset({400, 401, 403, 404, 422})
"""HTTP statuses of refusals that would be the same for the next request."""


class EventStream:
    """Iterate over events, reconnecting after a lost connection.

    If none of the events before had an id from which the next connection could read on, that begins with a
    ``refetch``: events may have been missed.
    Raises `PoolError` if the pool refuses the stream for good: an expired token, an unknown job. ``stop`` ends the
    iteration at the next event or heartbeat once it is set.
    """

    def __init__(
        self, transport: Transport, job: str | None, last_event_id: int | None, stop: threading.Event | None
    ) -> None:
        self._transport = transport
        self._job = job
        self._last = last_event_id
        self._stop = stop or threading.Event()
        self._begun = False
        self._backoff = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S)

    def __iter__(self) -> Iterator[Event]:
        while not self._stop.is_set():
            at_least = 0.0
            try:
                yield from self._connected()
            except Unreachable:
                pass
            except PoolError as error:
                if error.status in FINAL:
                    raise
                at_least = error.retry_after
            self._stop.wait(at_least + self._backoff.next_delay())

    def _connected(self) -> Iterator[Event]:
        headers = {} if self._last is None else {"Last-Event-ID": str(self._last)}
        with self._transport.stream(
            "events",
            query={"job": self._job},
            headers=headers,
            silence=SILENCE_S,
            max_event=MAX_EVENT_BYTES,
            stop=self._stop,
        ) as received:
            may_miss = self._begun and self._last is None
            for event in (self._event(sent) for sent in received if sent.data):
                self._backoff.reset()
                if may_miss:
                    yield Event(kind="refetch", data={})
                may_miss, self._begun = False, True
                yield event

    def _event(self, sent: ServerSentEvent) -> Event:
        """Return the event. One without an id of its own repeats the last id, as the standard says."""
        number = int(sent.id) if sent.id.isascii() and sent.id.isdigit() else None
        is_new = number is not None and number != self._last
        self._last = number if is_new else self._last
        try:
            data = msgspec.json.decode(sent.data, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise self._transport.unreachable(error) from error
        return Event(kind=sent.event, data=data, id=number if is_new else None, at=time.time())
