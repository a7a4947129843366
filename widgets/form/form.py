"""A form to submit jobs with: it offers what this user may ask for, and says what it would mean."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import ipywidgets

from springtide.scheduler.client import Client
from springtide.scheduler.client.times import prospect
from springtide.scheduler.wire import BadOption, Event, ProjectChoice
from springtide.widgets.connection import Connection
from springtide.widgets.display import phrases
from springtide.widgets.display.card import card
from springtide.widgets.display.listener import listener
from springtide.widgets.errors import SpringtideError
from springtide.widgets.form.advice import advice, problem
from springtide.widgets.form.arguments import parse_arguments
from springtide.widgets.form.fields import STYLE, OptionFields
from springtide.widgets.job import Job
from springtide.widgets.submission.functions import check_arguments
from springtide.widgets.submission.options import wish

KINDS = ("function", "command", "notebook")
SETTLED_S = 0.7
"""Seconds without a change after which the form asks when the job would start."""
REFRESH_PACE_S = 1.0
"""Minimum time between two looks at what is free."""
AGAIN_S = 20.0
"""Seconds after which news of the pool make the form ask again."""


class JobForm:
    """The form, live while it is displayed. ``box`` is its widget.

    ``submit`` is `Pool.submit`, ``namespace`` gives the notebook's variables when asked. Raises what `Client.me`
    raises.
    """

    def __init__(
        self, connection: Connection, submit: Callable[..., Job], namespace: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._connection, self._submit, self._namespace = connection, submit, namespace
        self._me = connection.ask(Client.me)
        self._view = connection.ask(Client.pool)
        self._asking = threading.Timer(0, self._ask_when)
        self._asked_at = 0.0
        self._is_stale, self._refreshed_at = False, time.monotonic()
        self._draw_fields()
        self.box = ipywidgets.VBox(children=self._children(), _view_count=0)
        self.box.add_class("springtide-form")
        self.box.observe(self._views_changed, "_view_count")
        self._check()
        self._foresee()

    def close(self) -> None:
        """Remove the form."""
        self._asking.cancel()
        listener(self._connection.client).remove(self)
        self.box.close()

    def __repr__(self) -> str:
        return "A form to submit jobs with; it needs a notebook that shows widgets. pool.submit(…) does the same."

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {**self.box._repr_mimebundle_(), "text/plain": repr(self)}

    # ---------- fields

    def _draw_fields(self) -> None:
        self.kind = ipywidgets.ToggleButtons(options=KINDS)
        self.function = ipywidgets.Dropdown(options=self._functions(), description="Function", style=STYLE)
        self.arguments = ipywidgets.Text(placeholder="0.1, epochs=30", description="Arguments", style=STYLE)
        self.command = ipywidgets.Text(placeholder="python train.py", description="Command", style=STYLE)
        self.notebook = ipywidgets.Dropdown(options=_notebooks(), description="Notebook", style=STYLE)
        self.fields = OptionFields(self._me)
        self.advice = ipywidgets.HTML()
        self.start = ipywidgets.HTML()
        self.notice = ipywidgets.HTML()
        self.button = ipywidgets.Button(description="Submit", button_style="primary")
        for mark, field in (
            ("submit", self.button),
            ("notice", self.notice),
            ("advice", self.advice),
            ("start", self.start),
        ):
            field.add_class(f"springtide-form-{mark}")
        for field in (self.kind, self.function, self.arguments, self.command, self.notebook):
            field.observe(self._check, "value")
        self.fields.observe(self._check)
        self.fields.observe(self._foresee)
        self.button.on_click(self._clicked)
        self.cards = ipywidgets.VBox()

    def _children(self) -> list[ipywidgets.Widget]:
        if not self._me.projects:
            text = "You are in no project yet, so there is nothing to submit to. An admin puts you into one."
            return [ipywidgets.HTML(phrases.escape(text))]
        what = [self.function, self.arguments, self.command, self.notebook]
        options = [*self.fields.first, self.fields.more]
        return [self.kind, *what, *options, self.advice, self.start, self.notice, self.button, self.cards]

    def _functions(self) -> list[str]:
        return sorted(
            name
            for name, value in self._namespace().items()
            if isinstance(value, FunctionType) and _is_own(value) and not name.startswith("_")
        )

    # ---------- while it is filled in

    def _choice(self) -> ProjectChoice | None:
        return next((choice for choice in self._me.projects if choice.name == self.fields["project"].value), None)

    def _check(self, _change: Any = None) -> None:
        """Show what the request means, or what is wrong with it."""
        choice = self._choice()
        if choice is None:
            return
        kind = self.kind.value
        shown = {self.function: "function", self.arguments: "function", self.command: "command"}
        for field, of in {**shown, self.notebook: "notebook"}.items():
            field.layout.display = "" if of == kind else "none"
        self.fields["workers"].layout.display = "" if choice.max_total > 1 else "none"
        unfit = self.fields.problem() or self._refusal(choice)
        wrong = unfit or self._missing() or self._misfit()
        view = next((project for project in self._view.projects if project.name == choice.name), None)
        simulated = " (simulated GPUs)" if self._me.simulated else ""
        self.advice.value = "" if unfit else phrases.escape(advice(choice, view, *self._size()) + simulated)
        self.notice.value = phrases.escape(wrong)
        self.button.disabled = bool(wrong)

    def _refusal(self, choice: ProjectChoice) -> str:
        """Return why the project does not take what is filled in; empty if it does."""
        options = self.fields.values()
        priority = self._me.priorities[options["priority"]]
        return problem(choice, *self._size(), priority=priority, time_limit=options.get("time_limit"))

    def _size(self) -> tuple[int, int]:
        return self.fields["gpus"].value, self.fields["workers"].value

    def _foresee(self, _change: Any = None) -> None:
        """Say in a moment when it would start, if it cannot start at once."""
        self._asking.cancel()
        choice = self._choice()
        gpus, workers = self._size()
        if choice is None or self.fields.problem() or gpus * workers <= choice.free_now:
            self.start.value = ""
            return
        self._asked_at = time.monotonic()
        self._asking = threading.Timer(SETTLED_S, self._ask_when)
        self._asking.daemon = True
        self._asking.start()

    def _ask_when(self) -> None:
        try:
            told = self._connection.ask(Client.when, wish(self.fields.values()))
        except (SpringtideError, BadOption):
            self.start.value = ""
        else:
            self.start.value = phrases.escape(prospect(told))

    def _missing(self) -> str:
        if self.kind.value == "function" and not self.function.value:
            return "Define or import a function of your own, and open the form again."
        if self.kind.value == "command" and not self.command.value.strip():
            return "Say what to run, such as python train.py."
        if self.kind.value == "notebook" and not self.notebook.value:
            return "There is no notebook in this directory."
        return ""

    def _misfit(self) -> str:
        """Return why the function cannot be called with the arguments; empty if it can."""
        if self.kind.value != "function":
            return ""
        variables = self._namespace()
        try:
            check_arguments(variables[self.function.value], *parse_arguments(self.arguments.value, variables))
        except SpringtideError as error:
            return str(error)
        return ""

    # ---------- sending

    def _clicked(self, _button: Any) -> None:
        self.button.disabled = True
        threading.Thread(target=self._send, name="springtide", daemon=True).start()

    def _send(self) -> None:
        try:
            job = self._submit_filled()
            shown = card(self._connection, job.info, " ".join(job.notes))
            self.cards.children = (shown, *self.cards.children)
            self.notice.value = ""
        except SpringtideError as error:
            self.notice.value = phrases.escape(str(error))
        finally:
            self.button.disabled = False

    def _submit_filled(self) -> Job:
        options = self.fields.values()
        if self.kind.value == "function":
            variables = self._namespace()
            args, keywords = parse_arguments(self.arguments.value, variables)
            return self._submit(variables[self.function.value], *args, kwargs=keywords, **options)
        work = self.command.value if self.kind.value == "command" else Path(self.notebook.value)
        return self._submit(work, **options)

    # ---------- living with the pool

    @property
    def due(self) -> float:
        """When to refresh if no event comes: as soon as the pace allows after a change of the pool."""
        return self._refreshed_at + REFRESH_PACE_S if self._is_stale else math.inf

    def hear(self, event: Event) -> bool:
        """Take in an event; return whether the form changes now."""
        if event.kind in {"pool", "admin"}:
            self._is_stale = True
        return self.due <= time.monotonic()

    def forget(self) -> None:
        """Note that events may have been missed."""
        self._is_stale = True

    def refresh(self) -> bool:
        """Ask again what is free and what may be asked for."""
        self._is_stale, self._refreshed_at = False, time.monotonic()
        self._me = self._connection.client.me()
        self._view = self._connection.client.pool()
        self._fill_functions()
        self._check()
        if time.monotonic() - self._asked_at > AGAIN_S:
            self._foresee()
        return True

    def _fill_functions(self) -> None:
        chosen, functions = self.function.value, self._functions()
        if functions != list(self.function.options):
            self.function.options = functions
            self.function.value = chosen if chosen in functions else next(iter(functions), None)

    def failed(self, error: Exception) -> None:
        """Say that what is shown is no longer live."""
        self.notice.value = phrases.escape(f"No longer live: {error}")

    def _views_changed(self, change: dict[str, Any]) -> None:
        served = listener(self._connection.client)
        if change["new"]:
            served.add(self)
        else:
            served.remove(self)


def _is_own(function: FunctionType) -> bool:
    """Return whether it was written in the notebook, or in a file beside it."""
    file = getattr(sys.modules.get(function.__module__), "__file__", None)
    return function.__module__ == "__main__" or (file is not None and Path(file).parent == Path.cwd())


def _notebooks() -> list[str]:
    return sorted(path.name for path in Path.cwd().glob("*.ipynb"))
