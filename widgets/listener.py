"""What happens in the pool, told to whoever looks at it: one pair of threads for the whole process.

One thread reads the event stream and notes who is concerned; the other lets those fetch what is new, so that a
slow answer holds nobody up and a flood of events becomes a few fetches a second. Both run only while somebody
looks.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from springtide.scheduler.client import Client, PoolError, Unreachable
from springtide.scheduler.wire import Event

log = logging.getLogger(__name__)

PACE_S = 0.2
"""The least time between two rounds of fetching."""
TOO_MANY = 429
SERVER_ERROR = 500
AWAY_S = 2.0
"""How long to wait after a fetch that found the pool away."""


class Looker(Protocol):
    """Something that shows a part of the pool."""

    def hears(self, event: Event) -> bool:
        """Whether the event changes what is shown. Called for every event: it must be quick."""

    def refresh(self) -> bool:
        """Fetch and show what is new; false when nothing new will ever come. May raise what the client raises."""

    def failed(self, error: Exception) -> None:
        """Nothing new will come any more, because of ``error``."""


class Listener:
    """Serves lookers with the events of one client, from the first `add` to the last `remove`.

    The stream begins with an event at once: what happened before it came is asked for then.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._lookers: set[Looker] = set()
        self._concerned: set[Looker] = set()
        self._stop: threading.Event | None = None

    def add(self, looker: Looker) -> None:
        """Begin to serve ``looker``, first of all with the state as it is now. Adding twice does no harm."""
        with self._changed:
            self._lookers.add(looker)
            self._concerned.add(looker)
            if self._stop is None:
                self._stop = threading.Event()
                for work in (self._listen, self._serve):
                    threading.Thread(target=work, args=(self._stop,), name="springtide", daemon=True).start()
            self._changed.notify_all()

    def remove(self, looker: Looker) -> None:
        """Stop serving ``looker``; with the last one the threads end."""
        with self._changed:
            self._lookers.discard(looker)
            self._concerned.discard(looker)
            if not self._lookers and self._stop is not None:
                self._stop.set()
                self._stop = None
            self._changed.notify_all()

    @property
    def active(self) -> bool:
        """Whether anybody is served."""
        return self._stop is not None

    def _listen(self, stop: threading.Event) -> None:
        begun = False
        try:
            for event in self._client.events(stop=stop):
                with self._changed:
                    if stop.is_set():
                        return
                    missed = not begun or event.kind == "refetch"
                    self._concerned.update(looker for looker in self._lookers if missed or looker.hears(event))
                    self._changed.notify_all()
                begun = True
        except PoolError as error:
            for looker in self._lookers.copy():
                self._give_up(looker, error)

    def _serve(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._concerned or stop.is_set())
                if stop.is_set():
                    return
                concerned, self._concerned = self._concerned, set()
            pause = PACE_S
            for looker in concerned:
                if stop.is_set():
                    return
                if not self._refresh(looker):
                    pause = AWAY_S
            stop.wait(pause)

    def _refresh(self, looker: Looker) -> bool:
        """Whether the pool was there to be asked."""
        try:
            if not looker.refresh():
                self.remove(looker)
        except Exception as error:  # noqa: BLE001 - one broken view must not stop the others
            if not is_passing(error):
                self._give_up(looker, error)
                return True
            with self._changed:
                self._concerned.update({looker} & self._lookers)
            return False
        return True

    def _give_up(self, looker: Looker, error: Exception) -> None:
        self.remove(looker)
        try:
            looker.failed(error)
        except Exception:
            log.exception("A view failed to say that it is no longer updated: %s", error)


def is_passing(error: Exception) -> bool:
    """Whether asking again later may help."""
    return isinstance(error, Unreachable) or (
        isinstance(error, PoolError) and (error.status == TOO_MANY or error.status >= SERVER_ERROR)
    )


_listeners: dict[Client, Listener] = {}
_lock = threading.Lock()


def listener(client: Client) -> Listener:
    """The listener of a client, one per process."""
    with _lock:
        return _listeners.setdefault(client, Listener(client))
