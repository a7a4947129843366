"""The pool's events, for ever: read, and after a break read on from the last one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from springtide.scheduler.client.errors import PoolError, Unreachable
from springtide.scheduler.client.transport import Transport
from springtide.scheduler.wire import Event

SILENCE_S: Final = 45.0
"""The service sends a heartbeat at least every 20 seconds; this long without any is a lost connection."""
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 15.0
FINAL: Final = frozenset({400, 401, 403, 404, 422})
"""Refusals that asking again would not change."""


class EventStream:
    """Iterates over events, reconnecting by itself.

    Raises `PoolError` where the pool refuses the stream for good (a token that is no longer good, an unknown
    job). ``stop`` ends the iteration at the next event or heartbeat once it is set.
    """

    def __init__(
        self, transport: Transport, job: str | None, last_event_id: int | None, stop: threading.Event | None
    ) -> None:
        self._transport = transport
        self._job = job
        self._last = last_event_id
        self._stop = stop or threading.Event()
        self._wait = FIRST_WAIT_S

    def __iter__(self) -> Iterator[Event]:
        while not self._stop.is_set():
            try:
                yield from self._connected()
            except Unreachable:
                pass
            except PoolError as error:
                if error.status in FINAL:
                    raise
            self._stop.wait(self._wait * random.uniform(0.5, 1))  # noqa: S311 - spreads reconnects, hides nothing
            self._wait = min(self._wait * 2, LONGEST_WAIT_S)

    def _connected(self) -> Iterator[Event]:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self._last is not None:
            headers["Last-Event-ID"] = str(self._last)
        with self._transport.stream(
            "events", query={"job": self._job}, headers=headers, silence=SILENCE_S
        ) as lines:
            fields: dict[str, str] = {}
            for line in lines:
                if self._stop.is_set():
                    return
                if line:
                    _gather(fields, line)
                    continue
                event = _event(fields)
                fields = {}
                if event is not None:
                    self._wait = FIRST_WAIT_S
                    self._last = event.id if event.id is not None else self._last
                    yield event


def _gather(fields: dict[str, str], line: bytes) -> None:
    """Add one line of an event; comments (heartbeats) have an empty name."""
    name, _, value = line.decode("utf-8", "replace").partition(":")
    value = value.removeprefix(" ")
    fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


def _event(fields: dict[str, str]) -> Event | None:
    if "data" not in fields:
        return None
    data = msgspec.json.decode(fields["data"], type=dict[str, Any])
    number = fields.get("id", "")
    return Event(
        kind=fields.get("event", "message"),
        data=data,
        id=int(number) if number.isdecimal() else None,
        at=time.time(),
    )
