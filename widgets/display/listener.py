"""Feeds the viewers of a process with the pool's events: one pair of threads for all viewers.

One thread reads the event stream and passes each event to the viewers; the other refreshes changed viewers, which
fetch data that is not in events. A slow answer delays no event, and a flood of events becomes a few refreshes a
second. Both threads run only while there are viewers.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Protocol

from springtide.scheduler.client import Client, PoolError, Unreachable
from springtide.scheduler.wire import Event

log = logging.getLogger(__name__)

PACE_S = 0.2
"""Minimum time between two rounds of refreshes."""
TOO_MANY = 429
SERVER_ERROR = 500
AWAY_S = 2.0
"""Delay after a request that the pool did not answer."""


class Viewer(Protocol):
    """Something that shows a part of the pool.

    `hear` and `forget` are called on one thread, `refresh` and `failed` on another.
    """

    @property
    def due(self) -> float:
        """The time of the next refresh if no event comes before, on the monotonic clock; infinity for none."""

    def hear(self, event: Event) -> bool:
        """Handle an event; return whether it changes the view. Called for every event: it must be quick."""

    def forget(self) -> None:
        """Note that events may have been missed: the next refresh fetches everything."""

    def refresh(self) -> bool:
        """Show the changes; return false if nothing can change any more. May raise the client's errors."""

    def failed(self, error: Exception) -> None:
        """Show that the view is no longer updated, because of ``error``."""


class Listener:
    """Serves viewers with the events of one client, from the first `add` to the last `remove`.

    The stream begins with an event at once; the state before it is fetched then. A garbage-collected widget
    removes its viewer on the collecting thread, at any point of that thread's work here.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._viewers: set[Viewer] = set()
        self._waiting: set[Viewer] = set()
        self._stop: threading.Event | None = None

    def add(self, viewer: Viewer) -> None:
        """Begin to serve a viewer, with a fetch of everything first. Adding a viewer twice does nothing."""
        with self._changed:
            if viewer in self._viewers:
                return
            viewer.forget()
            self._viewers.add(viewer)
            self._waiting.add(viewer)
            if self._stop is None:
                self._stop = threading.Event()
                for work in (self._listen, self._serve):
                    threading.Thread(target=work, args=(self._stop,), name="springtide", daemon=True).start()
            self._changed.notify_all()

    def remove(self, viewer: Viewer) -> None:
        """Stop serving a viewer; with the last one the threads end."""
        with self._changed:
            self._viewers.discard(viewer)
            self._waiting.discard(viewer)
            if not self._viewers and self._stop is not None:
                self._stop.set()
                self._stop = None
            self._changed.notify_all()

    @property
    def active(self) -> bool:
        """Whether there are viewers."""
        return self._stop is not None

    def _listen(self, stop: threading.Event) -> None:
        begun = False
        try:
            for event in self._client.events(stop=stop):
                with self._changed:
                    if stop.is_set():
                        return
                    missed = not begun or event.kind == "refetch"
                    for viewer in self._viewers.copy():
                        if missed:
                            viewer.forget()
                        if viewer.hear(event) or missed:
                            self._waiting.add(viewer)
                    self._changed.notify_all()
                begun = True
        except PoolError as error:
            for viewer in self._viewers.copy():
                self._give_up(viewer, error)

    def _serve(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._changed:
                while not (self._waiting or stop.is_set()):
                    self._changed.wait(self._collect_due())
                if stop.is_set():
                    return
                waiting, self._waiting = self._waiting, set()
            pause = PACE_S
            for viewer in waiting:
                if stop.is_set():
                    return
                if not self._refresh(viewer):
                    pause = AWAY_S
            stop.wait(pause)

    def _collect_due(self) -> float | None:
        """Queue the viewers that are due for a refresh; return the seconds until the next one is due."""
        now = time.monotonic()
        self._waiting.update(viewer for viewer in self._viewers.copy() if viewer.due <= now)
        if self._waiting:
            return 0.0
        first = min((viewer.due for viewer in self._viewers.copy()), default=math.inf)
        return None if first == math.inf else first - now

    def _refresh(self, viewer: Viewer) -> bool:
        """Refresh a viewer; return whether the pool answered."""
        try:
            if not viewer.refresh():
                self.remove(viewer)
        except Exception as error:  # noqa: BLE001 - one broken view must not stop the others
            if not is_passing(error):
                self._give_up(viewer, error)
                return True
            with self._changed:
                if viewer in self._viewers:
                    viewer.forget()
                    self._waiting.add(viewer)
            return False
        return True

    def _give_up(self, viewer: Viewer, error: Exception) -> None:
        self.remove(viewer)
        try:
            viewer.failed(error)
        except Exception:
            log.exception("A view failed to say that it is no longer updated: %s", error)


def is_passing(error: Exception) -> bool:
    """Return whether a later retry may succeed."""
    return isinstance(error, Unreachable) or (
        isinstance(error, PoolError) and (error.status == TOO_MANY or error.status >= SERVER_ERROR)
    )


_listeners: dict[Client, Listener] = {}
_lock = threading.RLock()  # a widget that is collected on a thread that holds it looks up a listener too


def listener(client: Client) -> Listener:
    """Return the listener of a client, one per process."""
    with _lock:
        return _listeners.setdefault(client, Listener(client))
