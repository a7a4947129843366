"""A form to submit jobs with: it offers what this user may ask for, and says what it would mean."""

from __future__ import annotations

import ast
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
from springtide.scheduler.wire import Event, Me, PoolView, ProjectChoice
from springtide.widgets import words
from springtide.widgets.advice import advice, problem
from springtide.widgets.card import card
from springtide.widgets.connection import Connection
from springtide.widgets.errors import OptionError, SpringtideError
from springtide.widgets.handle import Job
from springtide.widgets.listener import listener
from springtide.widgets.options import Options, wish

KINDS = ("function", "command", "notebook")
SETTLED_S = 0.7
"""Seconds without a change after which the form asks when the job would start."""
AGAIN_S = 20.0
"""Seconds after which news of the pool make the form ask again."""
WIDE = {"description_width": "90px"}


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
        me = self._me
        names = sorted(me.priorities, key=lambda name: me.priorities[name])
        self.kind = ipywidgets.ToggleButtons(options=KINDS)
        self.function = ipywidgets.Dropdown(options=self._functions(), description="Function", style=WIDE)
        self.arguments = ipywidgets.Text(placeholder="0.1, epochs=30", description="Arguments", style=WIDE)
        self.command = ipywidgets.Text(placeholder="python train.py", description="Command", style=WIDE)
        self.notebook = ipywidgets.Dropdown(options=_notebooks(), description="Notebook", style=WIDE)
        self.name = ipywidgets.Text(placeholder="as what runs", description="Name", style=WIDE)
        self.project = ipywidgets.Dropdown(
            options=[choice.name for choice in me.projects], description="Project", style=WIDE
        )
        self.gpus = ipywidgets.BoundedIntText(1, min=1, max=1, description="GPUs", style=WIDE)
        self.workers = ipywidgets.BoundedIntText(1, min=1, max=1, description="Workers", style=WIDE)
        self.priority = ipywidgets.Dropdown(
            options=names, value="train" if "train" in names else None, description="Priority", style=WIDE
        )
        self.gpu_type = ipywidgets.Dropdown(
            options=[("any", ""), *((kind, kind) for kind in me.gpu_types)], description="GPU type", style=WIDE
        )
        self.image = ipywidgets.Combobox(
            options=[image for image in me.images if "*" not in image],
            placeholder="as this notebook",
            description="Image",
            style=WIDE,
        )
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
        for field in (self.kind, self.project, self.gpus, self.workers, self.function, self.command):
            field.observe(self._check, "value")
        for field in (self.project, self.gpus, self.workers, self.priority, self.gpu_type):
            field.observe(self._foresee, "value")
        self.button.on_click(self._clicked)
        self.cards = ipywidgets.VBox()

    def _children(self) -> list[ipywidgets.Widget]:
        if not self._me.projects:
            text = "You are in no project yet, so there is nothing to submit to. An admin puts you into one."
            return [ipywidgets.HTML(words.escape(text))]
        what = [self.function, self.arguments, self.command, self.notebook]
        types = [self.gpu_type] if len(self._me.gpu_types) > 1 else []
        images = [self.image] if self._me.images else []
        ask = [self.name, self.project, self.gpus, self.workers, self.priority, *types, *images]
        return [self.kind, *what, *ask, self.advice, self.start, self.notice, self.button, self.cards]

    def _functions(self) -> list[str]:
        return sorted(
            name
            for name, value in self._namespace().items()
            if isinstance(value, FunctionType) and _is_own(value) and not name.startswith("_")
        )

    # ---------- while it is filled in

    def _choice(self) -> ProjectChoice | None:
        return next((choice for choice in self._me.projects if choice.name == self.project.value), None)

    def _check(self, _change: Any = None) -> None:
        choice = self._choice()
        if choice is None:
            return
        self.gpus.max = max(1, choice.max_gpus)
        self.workers.max = max(1, choice.max_total // self.gpus.value)
        kind = self.kind.value
        shown = {self.function: "function", self.arguments: "function", self.command: "command"}
        for field, of in {**shown, self.notebook: "notebook"}.items():
            field.layout.display = "" if of == kind else "none"
        self.workers.layout.display = "" if self.workers.max > 1 else "none"
        view = next((project for project in self._view.projects if project.name == choice.name), None)
        simulated = " (simulated GPUs)" if self._me.simulated else ""
        self.advice.value = words.escape(advice(choice, view, self.gpus.value, self.workers.value) + simulated)
        wrong = problem(choice, self.gpus.value, self.workers.value) or self._missing()
        self.notice.value = words.escape(wrong)
        self.button.disabled = bool(wrong)

    def _foresee(self, _change: Any = None) -> None:
        """Say in a moment when it would start, if it cannot start at once."""
        self._asking.cancel()
        choice = self._choice()
        if choice is None or self.gpus.value * self.workers.value <= choice.free_now:
            self.start.value = ""
            return
        self._asked_at = time.monotonic()
        self._asking = threading.Timer(SETTLED_S, self._ask_when)
        self._asking.daemon = True
        self._asking.start()

    def _ask_when(self) -> None:
        try:
            told = self._connection.ask(Client.when, wish(Options(**self._options())))
        except SpringtideError:
            self.start.value = ""
        else:
            self.start.value = words.escape(prospect(told))

    def _options(self) -> dict[str, Any]:
        return {
            "project": self.project.value,
            "gpus": self.gpus.value,
            "workers": self.workers.value,
            "priority": self.priority.value or "train",
            "gpu_types": [self.gpu_type.value] if self.gpu_type.value else [],
        }

    def _missing(self) -> str:
        if self.kind.value == "function" and not self.function.value:
            return "Define or import a function of your own, and open the form again."
        if self.kind.value == "command" and not self.command.value.strip():
            return "Say what to run, such as python train.py."
        if self.kind.value == "notebook" and not self.notebook.value:
            return "There is no notebook in this directory."
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
            self.notice.value = words.escape(str(error))
        finally:
            self.button.disabled = False

    def _submit_filled(self) -> Job:
        options = {**self._options(), "name": self.name.value, "image": self.image.value.strip() or None}
        if self.kind.value == "function":
            variables = self._namespace()
            args, keywords = parse_arguments(self.arguments.value, variables)
            return self._submit(variables[self.function.value], *args, kwargs=keywords, **options)
        work = self.command.value if self.kind.value == "command" else Path(self.notebook.value)
        return self._submit(work, **options)

    # ---------- living with the pool

    def hears(self, event: Event) -> bool:
        """Whether the event changes what the form says."""
        return event.kind in {"pool", "admin"}

    def refresh(self) -> bool:
        """Ask again what is free and what may be asked for."""
        me: Me = self._connection.client.me()
        view: PoolView = self._connection.client.pool()
        self._me, self._view = me, view
        self.function.options = self._functions()
        self._check()
        if time.monotonic() - self._asked_at > AGAIN_S:
            self._foresee()
        return True

    def failed(self, error: Exception) -> None:
        """Say that what is shown is no longer live."""
        self.notice.value = words.escape(f"No longer live: {error}")

    def _views_changed(self, change: dict[str, Any]) -> None:
        served = listener(self._connection.client)
        if change["new"]:
            served.add(self)
        else:
            served.remove(self)


def parse_arguments(text: str, variables: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """``0.1, epochs=n`` as the call's arguments: plain values, and names of the notebook's variables.

    Raises `OptionError` for anything else.
    """
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "_":
        msg = f"The arguments {text!r} cannot be read. Write them as in a call: 0.1, epochs=30."
        raise OptionError(msg)
    keywords = {keyword.arg: _value(keyword.value, variables) for keyword in call.keywords if keyword.arg}
    return [_value(node, variables) for node in call.args], keywords


def _value(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name) and node.id in variables:
        return variables[node.id]
    try:
        return ast.literal_eval(node)
    except ValueError:
        msg = f"`{ast.unparse(node)}` is neither a plain value nor a variable of the notebook."
        raise OptionError(msg) from None


def _is_own(function: FunctionType) -> bool:
    """Whether it was written in the notebook, or in a file beside it."""
    file = getattr(sys.modules.get(function.__module__), "__file__", None)
    return function.__module__ == "__main__" or (file is not None and Path(file).parent == Path.cwd())


def _notebooks() -> list[str]:
    return sorted(path.name for path in Path.cwd().glob("*.ipynb"))
