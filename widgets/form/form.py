"""A form to submit jobs with, as a notebook shows it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import ipywidgets
import traitlets

from springtide.scheduler.client import Client
from springtide.widgets import browser_modules
from springtide.widgets.connection import Connection
from springtide.widgets.display.card import card
from springtide.widgets.display.document import form_output
from springtide.widgets.errors import SpringtideError
from springtide.widgets.form.backend import FormBackend

ABOUT = "A form to submit jobs with; pool.submit(…) does the same in code."


class JobForm:
    """The form. JupyterLab and Notebook draw it by themselves; elsewhere it is a widget that asks ``backend``."""

    def __init__(self, connection: Connection, backend: FormBackend) -> None:
        self._connection, self._backend = connection, backend

    def __repr__(self) -> str:
        return ABOUT

    def widget(self) -> ipywidgets.VBox:
        """Return a new widget of the form, with the cards of its submitted jobs below."""
        cards = ipywidgets.VBox()

        def sent(job_id: str) -> None:
            shown = card(self._connection, self._connection.ask(Client.job, job_id))
            cards.children = (shown, *cards.children)

        return ipywidgets.VBox(children=(FormWidget(self._backend, sent), cards))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        shown: dict[str, Any] = self.widget()._repr_mimebundle_()
        return {**shown, **form_output(), "text/plain": ABOUT, "text/html": f"<p>{ABOUT}</p>"}


class FormWidget(anywidget.AnyWidget):
    """The form where only the kernel can draw it. Each message is a request, answered on its own thread."""

    _esm = browser_modules.bundle("notebook/form_widget.js")
    _css = browser_modules.stylesheet()

    identity = traitlets.Unicode().tag(sync=True)

    def __init__(self, backend: FormBackend, sent: Callable[[str], None]) -> None:
        identity = uuid.uuid4().hex
        super().__init__(model_id=identity, identity=identity)
        self._backend, self._sent = backend, sent
        self.on_msg(self._received)

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, Mapping) and isinstance(content.get("number"), int):
            threading.Thread(target=self._answer, args=(content,), name="springtide", daemon=True).start()

    def _answer(self, content: Mapping[str, Any]) -> None:
        message = content.get("ask")
        answer = self._backend.answer(message)
        if isinstance(message, Mapping) and message.get("do") == "submit" and answer["value"] is not None:
            try:
                self._sent(answer["value"]["id"])
            except SpringtideError as error:
                answer["value"]["notes"].append(str(error))
        self.send({"number": content["number"], "answer": answer})
