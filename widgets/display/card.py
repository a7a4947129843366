"""The live card of a job and the pool at a glance, as widgets."""

from __future__ import annotations

import logging
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any

import anywidget
import msgspec
import traitlets

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, PoolView
from springtide.widgets import browser_modules
from springtide.widgets.connection import Connection
from springtide.widgets.display.document import job_data
from springtide.widgets.display.feed import CardFeed, PoolFeed
from springtide.widgets.display.listener import Viewer, listener
from springtide.widgets.errors import SpringtideError

log = logging.getLogger(__name__)

ACTIONS: dict[str, Callable[[Client, str], Job]] = {
    "pause": Client.pause,
    "resume": Client.resume,
    "cancel": Client.cancel,
    "end": Client.end,
    "finish": Client.finish,
    "retry": Client.retry_trials,
    "rerun": Client.rerun,
}


class _Live(anywidget.AnyWidget):
    """A widget that is updated while a page shows it.

    It is fed from when a page first shows it: one that is not drawn, because the page draws another type of the
    same output, costs nothing. It changes on the listener's thread while messages of the page are handled on
    another, so both take turns. A page that missed a change, for which ``version`` counts them, is sent all of it
    again when it asks. By its ``identity`` the page finds the model that the kernel's messages go to.
    """

    identity = traitlets.Unicode().tag(sync=True)
    version = traitlets.Int(0).tag(sync=True)

    _viewer: Viewer
    _connection: Connection
    _was_shown = False

    def __init__(self, **shown: Any) -> None:
        self._turn = threading.RLock()
        identity = uuid.uuid4().hex
        super().__init__(model_id=identity, identity=identity, **shown)

    def _begin(self, connection: Connection, viewer: Viewer) -> None:
        self._connection, self._viewer = connection, viewer
        self.on_msg(self._asked)
        self._view_count = 0
        self.observe(self._views_changed, "_view_count")

    def _views_changed(self, change: dict[str, Any]) -> None:
        if change["new"]:
            self._follow()
        else:
            listener(self._connection.client).remove(self._viewer)

    def _follow(self) -> None:
        """Begin to feed the widget, unless it is being fed."""
        self._was_shown = True
        listener(self._connection.client).add(self._viewer)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Handle the state changed by the page."""
        with self._turn:
            super().set_state(sync_data)

    def _show(self, changed: dict[str, Any]) -> None:
        with self._turn, self.hold_sync():
            for name, value in changed.items():
                self.set_trait(name, value)
            self.version += 1

    def _asked(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, dict) and "shown" in content:
            if not self._was_shown:
                self._follow()
            with self._turn:
                fresh = content["shown"] == self.version
                if not fresh:
                    self.send_state()
                self.send({"fresh": fresh})

    def close(self) -> None:
        """Remove the widget's views and stop feeding it."""
        listener(self._connection.client).remove(self._viewer)
        super().close()


class Card(_Live):
    """The live card of one job or sweep. Each action of its buttons runs on its own thread."""

    _esm = browser_modules.bundle("notebook/card_widget.js")
    _css = browser_modules.stylesheet()

    job = traitlets.Dict().tag(sync=True)
    points: traitlets.List[Any] = traitlets.List().tag(sync=True)
    log: traitlets.Unicode[Any, Any] = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    trials: traitlets.List[Any] = traitlets.List(None, allow_none=True).tag(sync=True)
    notice = traitlets.Unicode("").tag(sync=True)
    colour = traitlets.Int(None, allow_none=True).tag(sync=True)
    simulated = traitlets.Bool(False).tag(sync=True)

    def __init__(self, connection: Connection, job: Job, notice: str = "") -> None:
        super().__init__(job=job_data(job), notice=notice)
        self._job_id = job.id
        self.on_msg(self._clicked)
        self._begin(connection, CardFeed(connection.client, job.id, self._show))

    def _clicked(self, _widget: Any, content: Any, _buffers: Any) -> None:
        action = ACTIONS.get(str(content.get("action"))) if isinstance(content, dict) else None
        if action is not None:
            threading.Thread(target=self._act, args=(action,), name="springtide", daemon=True).start()

    def _act(self, action: Callable[[Client, str], Job]) -> None:
        self._show({"notice": ""})
        try:
            job = self._connection.ask(action, self._job_id)
            self._follow()
            if job.id != self._job_id:
                self._show({"notice": f"It runs again as another job: pool.job({job.id!r})."})
        except SpringtideError as error:
            self._show({"notice": str(error)})


class PoolCard(_Live):
    """The pool at a glance, live."""

    _esm = browser_modules.bundle("notebook/pool_widget.js")
    _css = browser_modules.stylesheet()

    pool = traitlets.Dict().tag(sync=True)
    me = traitlets.Dict().tag(sync=True)

    def __init__(self, connection: Connection) -> None:
        me = msgspec.to_builtins(connection.ask(Client.me))
        super().__init__(pool=msgspec.to_builtins(connection.ask(Client.pool)), me=me)
        self._begin(connection, PoolFeed(connection.client, self._draw, _log_failure))

    def _draw(self, pool: PoolView) -> None:
        self._show({"pool": msgspec.to_builtins(pool)})


def _log_failure(error: Exception) -> None:
    log.warning("The pool is no longer shown live: %s", error)


def bundle(widget: _Live) -> dict[str, Any]:
    """Return the MIME bundle with which a notebook shows the widget."""
    made = widget._repr_mimebundle_()
    return {} if made is None else dict(made[0])


_cards: weakref.WeakValueDictionary[tuple[Connection, str], Card] = weakref.WeakValueDictionary()


def card(connection: Connection, job: Job, notice: str = "") -> Card:
    """Return the card of a job, the same one each time."""
    shown = _cards.get((connection, job.id))
    if shown is None or shown.comm is None:
        shown = _cards[connection, job.id] = Card(connection, job, notice)
    return shown
