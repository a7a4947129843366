"""What a form asks of its kernel: the functions of the notebook, whether a call fits, and to submit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import msgspec

from springtide.scheduler.capture import Captured, Here
from springtide.scheduler.client import Client
from springtide.scheduler.wire import JobEnvironment, Problem
from springtide.scheduler.wire.form_fields import Form, form_of, typed_options
from springtide.scheduler.wording import given
from springtide.widgets.connection import Connection, PoolError, UnreachableError
from springtide.widgets.display.plain import Environment
from springtide.widgets.errors import OptionError, SpringtideError
from springtide.widgets.form.arguments import Callee, call_of, described
from springtide.widgets.form.review import Review, question, refused, reviewed
from springtide.widgets.job import Job
from springtide.widgets.submission.capture import capture, capture_sources

Submit = Callable[..., Job]
Describe = Callable[[Captured, Mapping[str, Any]], Environment]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a page asks. ``typed`` are options by name, ``arguments`` those of the function that ``work`` names."""

    do: str
    kind: str = "function"
    work: str = ""
    arguments: dict[str, str] = {}
    typed: dict[str, str] = {}


class Sent(msgspec.Struct, frozen=True):
    """The job that was accepted, and what its user should know."""

    id: str
    notes: list[str]


class Described(msgspec.Struct, frozen=True):
    """What a job would run with; ``image`` is None on one machine."""

    environment: JobEnvironment
    image: str | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, or why it cannot be had; ``field`` is the one that is wrong."""

    value: Any = None
    error: str = ""
    field: str = ""


class FormBackend:
    """Answers a form. ``namespace`` gives the notebook's variables.

    ``submit`` is `Pool.submit`, ``describe`` tells what a job of something captured would run with.
    """

    def __init__(
        self,
        connection: Callable[[], Connection],
        submit: Submit,
        describe: Describe,
        namespace: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._connection, self._submit, self._describe = connection, submit, describe
        self._namespace = namespace

    def answer(self, asked: object) -> dict[str, Any]:
        """Return the answer to what a page asks, as plain data. What it asks is not trusted to make sense."""
        try:
            request = msgspec.convert(asked, Asked)
            found = Answer(value=self._answers[request.do](self, request))
        except (msgspec.ValidationError, KeyError):
            found = Answer(
                error="The page asked what this version of Springtide does not know. Run the cell again."
            )
        except PoolError as error:
            found = Answer(error=str(error), field=error.problem.field or "")
        except SpringtideError as error:
            found = Answer(error=str(error))
        plain: dict[str, Any] = msgspec.to_builtins(found)
        return plain

    def form(self, _request: Asked) -> Form:
        """Return what to draw the form of."""
        notebooks = sorted(path.name for path in Path.cwd().glob("*.ipynb"))
        return form_of(self._connection().ask(Client.me), notebooks)

    def functions(self, _request: Asked) -> list[Callee]:
        """Return the functions that were written in the notebook, or in files beside it."""
        found = {name: value for name, value in self._namespace().items() if _is_own(name, value)}
        return [described(name, found[name]) for name in sorted(found)]

    def arguments(self, request: Asked) -> dict[str, str]:
        """Return what is wrong with the arguments, by parameter."""
        variables = self._namespace()
        return call_of(self._function(request.work, variables), request.arguments, variables)[2]

    def review(self, request: Asked) -> Review:
        """Return what is wrong with the options, and what to expect of the job."""
        what, unread = question(request.typed)
        try:
            return reviewed(unread, self._connection().ask(Client.forecast, what))
        except PoolError as error:
            return refused(unread, error.problem)
        except UnreachableError as error:
            return refused(unread, Problem(status=0, code="unreachable", message=str(error)))

    def environment(self, request: Asked) -> Described:
        """Return what the job would run with; options that cannot be read are left out."""
        options, _ = typed_options(request.typed)
        here = Here(Path.cwd())
        if request.kind == "function":
            captured = capture_sources(self._function(request.work, self._namespace()), here)
        else:
            captured = capture(Path(request.work) if request.kind == "notebook" else request.work, (), {}, here)
        found = self._describe(captured, options)
        return Described(found.told, found.image)

    def submit(self, request: Asked) -> Sent:
        """Submit what is filled in. Raise `SpringtideError` if it was not taken."""
        job = self.submitted(request)
        return Sent(job.id, list(job.notes))

    def submitted(self, request: Asked) -> Job:
        """Submit what is filled in, and return the handle."""
        options, problems = typed_options(request.typed)
        if problems:
            raise OptionError(" ".join(problems.values()))
        if request.kind != "function":
            return self._submit(Path(request.work) if request.kind == "notebook" else request.work, **options)
        variables = self._namespace()
        function = self._function(request.work, variables)
        args, kwargs, problems = call_of(function, request.arguments, variables)
        if problems:
            raise OptionError(" ".join(problems.values()))
        return self._submit(function, *args, kwargs=kwargs, **options)

    def _function(self, name: str, variables: Mapping[str, Any]) -> FunctionType:
        found = variables.get(name)
        if not isinstance(found, FunctionType):
            msg = f"There is no function {given(name)} in the notebook any more: run the cell that defines it."
            raise OptionError(msg)
        return found

    _answers: Mapping[str, Callable[[FormBackend, Asked], Any]] = {
        "form": form,
        "functions": functions,
        "arguments": arguments,
        "review": review,
        "environment": environment,
        "submit": submit,
    }


def _is_own(name: str, value: object) -> bool:
    """Return whether it is a function written in the notebook, or in a file beside it."""
    if not isinstance(value, FunctionType) or name.startswith("_"):
        return False
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    return value.__module__ == "__main__" or (file is not None and Path(file).parent == Path.cwd())
