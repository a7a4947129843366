"""The kernel's part of a form: lists the notebook's functions, checks calls and submits jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import msgspec

from springtide.scheduler.capture import Captured, kernel_place, working_directory
from springtide.scheduler.capture.parameter_cells import cells_of, typed_parameters
from springtide.scheduler.client import Client
from springtide.scheduler.wire import JobEnvironment, Problem
from springtide.scheduler.wire.form_fields import Form, form_of, typed_options
from springtide.scheduler.wording import given
from springtide.widgets.connection import Connection, PoolError, UnreachableError
from springtide.widgets.display.plain import Environment
from springtide.widgets.errors import OptionError, SpringtideError
from springtide.widgets.form.arguments import Callee, call_of, described
from springtide.widgets.form.preview import Preview, notebook_preview
from springtide.widgets.form.review import Review, question, refused, reviewed
from springtide.widgets.job import Job
from springtide.widgets.submission.capture import capture, capture_sources, own_errors

Submit = Callable[..., Job]
Describe = Callable[[Captured, Mapping[str, Any]], Environment]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of a page. ``typed`` are options by name, ``arguments`` those of a function or a notebook."""

    do: str
    kind: str = "function"
    work: str = ""
    arguments: dict[str, str] = {}
    typed: dict[str, str] = {}


class Sent(msgspec.Struct, frozen=True):
    """The accepted job, and notes for its user."""

    id: str
    notes: list[str]


class Described(msgspec.Struct, frozen=True):
    """The environment of a job; ``image`` is None on one machine."""

    environment: JobEnvironment
    image: str | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The value asked for, or the error; ``field`` is the invalid one."""

    value: Any = None
    error: str = ""
    field: str = ""


class FormBackend:
    """Answers a form. ``namespace`` gives the notebook's variables.

    ``submit`` is `Pool.submit`, ``describe`` returns the environment of a job of captured work.
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

    def answer(self, message: object) -> dict[str, Any]:
        """Return the answer to a page's message, as plain data. The message may be invalid."""
        try:
            request = msgspec.convert(message, Request)
            answer = Answer(value=self._answers[request.do](self, request))
        except (msgspec.ValidationError, KeyError):
            answer = Answer(
                error="The page asked what this version of Springtide does not know. Run the cell again."
            )
        except PoolError as error:
            answer = Answer(error=str(error), field=error.problem.field or "")
        except SpringtideError as error:
            answer = Answer(error=str(error))
        plain: dict[str, Any] = msgspec.to_builtins(answer)
        return plain

    def form(self, _request: Request) -> Form:
        """Return the contents of the form."""
        notebooks = sorted(path.name for path in Path().glob("*.ipynb"))
        return form_of(self._connection().ask(Client.me), notebooks)

    def functions(self, _request: Request) -> list[Callee]:
        """Return the functions that were written in the notebook, or in files beside it."""
        own = {name: value for name, value in self._namespace().items() if _is_own(name, value)}
        return [described(name, own[name]) for name in sorted(own)]

    def arguments(self, request: Request) -> dict[str, str]:
        """Return the errors of the arguments, by parameter."""
        variables = self._namespace()
        return call_of(self._function(request.work, variables), request.arguments, variables)[2]

    def preview(self, request: Request) -> Preview:
        """Return the parameters of a notebook, and the errors of typed ones."""
        return notebook_preview(cells_of(Path(request.work)), request.arguments)

    def review(self, request: Request) -> Review:
        """Return the errors of the options, and the forecast of the job."""
        what, unread = question(request.typed)
        try:
            return reviewed(unread, self._connection().ask(Client.forecast, what))
        except PoolError as error:
            return refused(unread, error.problem)
        except UnreachableError as error:
            return refused(unread, Problem(status=0, code="unreachable", message=str(error)))

    def environment(self, request: Request) -> Described:
        """Return the environment of the job; options that cannot be read are left out."""
        options, _ = typed_options(request.typed)
        with own_errors():
            here = kernel_place(working_directory()).for_job(options)
        if request.kind == "function":
            captured = capture_sources(self._function(request.work, self._namespace()), here)
        else:
            captured = capture(Path(request.work) if request.kind == "notebook" else request.work, (), {}, here)
        environment = self._describe(captured, options)
        return Described(environment.told, environment.image)

    def submit(self, request: Request) -> Sent:
        """Submit the job of the form. Raises `SpringtideError` if it is refused."""
        job = self.submitted(request)
        return Sent(job.id, list(job.notes))

    def submitted(self, request: Request) -> Job:
        """Submit the job of the form, and return its handle."""
        options, problems = typed_options(request.typed)
        if problems:
            raise OptionError(" ".join(problems.values()))
        if request.kind == "command":
            return self._submit(request.work, **options)
        if request.kind == "notebook":
            notebook = Path(request.work)
            values, problems = typed_parameters(cells_of(notebook), request.arguments)
            if problems:
                raise OptionError(" ".join(problems.values()))
            return self._submit(notebook, kwargs=values, **options)
        variables = self._namespace()
        function = self._function(request.work, variables)
        args, kwargs, problems = call_of(function, request.arguments, variables)
        if problems:
            raise OptionError(" ".join(problems.values()))
        return self._submit(function, *args, kwargs=kwargs, **options)

    def _function(self, name: str, variables: Mapping[str, Any]) -> FunctionType:
        function = variables.get(name)
        if not isinstance(function, FunctionType):
            msg = f"There is no function {given(name)} in the notebook any more: run the cell that defines it."
            raise OptionError(msg)
        return function

    _answers: Mapping[str, Callable[[FormBackend, Request], Any]] = {
        "form": form,
        "functions": functions,
        "arguments": arguments,
        "preview": preview,
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
