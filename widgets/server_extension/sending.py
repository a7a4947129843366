"""Jobs sent from a page: a script, a notebook or a command, in a directory below the notebook server's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from springtide.scheduler.capture import Captured, CaptureError, kernel_place
from springtide.scheduler.capture.parameter_cells import TAG, cells_of, typed_parameters
from springtide.scheduler.client import PoolError, Unreachable
from springtide.scheduler.wire import Problem
from springtide.scheduler.wire.form_fields import typed_options
from springtide.scheduler.wording import quoted
from springtide.widgets.errors import OptionError, SpringtideError
from springtide.widgets.form.arguments import REST
from springtide.widgets.form.backend import Described
from springtide.widgets.form.preview import (
    Preview,
    cell_preview,
    notebook_preview,
    script_command,
    script_preview,
)
from springtide.widgets.job import Job
from springtide.widgets.server_extension.pool_gate import GateError
from springtide.widgets.shared_pool import Pool
from springtide.widgets.submission.capture import capture

SUFFIXES: Final = (".ipynb", ".py")
NO_PARAMETERS: Final[Mapping[str, Any]] = MappingProxyType({})


T = TypeVar("T")


class Sending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page's job: a file by its path below the server's directory, or a command that runs in a directory.

    ``options`` are those of a job, ``typed`` those that were typed into a form, ``arguments`` the typed parameters
    of a notebook, or under `REST` the arguments of a script.
    """

    path: str = ""
    command: str = ""
    directory: str = ""
    options: dict[str, Any] = {}
    typed: dict[str, str] = {}
    arguments: dict[str, str] = {}


class Sight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page is about to send: a file by its path with the typed ``arguments``, or the text of a cell.

    ``parameters`` are the texts of its cells for parameters where it is open and not saved; ``number`` is that of
    the last run of the cell.
    """

    path: str = ""
    arguments: dict[str, str] = {}
    parameters: list[str] | None = None
    cell: str | None = None
    number: int | None = None


class Sent(msgspec.Struct, frozen=True):
    """The accepted job, and notes for its user."""

    id: str
    notes: list[str]


def read(body: bytes, of: type[T]) -> T:
    """Return the request. Raises `GateError`."""
    try:
        return msgspec.json.decode(body, type=of)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"The request is not readable: {error}."
        raise GateError(Problem(status=422, code="invalid", message=message)) from None


def send(request: Sending, root: Path, pool: Pool) -> Sent:
    """Send the file as it was last saved, or the command; return when the job is on disk. Raises `GateError`."""
    typed, problems = typed_options(request.typed)
    for name, words in problems.items():
        raise GateError(Problem(status=422, code="invalid", message=words, field=name))
    with _as_problems():
        options = {**request.options, **typed}
        captured = _captured(request, root, options, _parameters(request, root))
        job: Job = pool.send(captured, options)
    return Sent(job.id, list(job.notes))


def describe(request: Sending, root: Path, pool: Pool) -> Described:
    """Return the environment of a job of the file or the command. Raises `GateError`."""
    with _as_problems():
        options = typed_options(request.typed)[0]
        environment = pool.environment_of(_captured(request, root, options), options)
    return Described(environment.told, environment.image)


def preview(sight: Sight, root: Path) -> Preview:
    """Return the parameters of the notebook, or why the cell cannot be sent. Raises `GateError`."""
    if sight.cell is not None:
        return cell_preview(sight.cell, sight.number)
    if sight.parameters is not None:
        cells = [{"source": text, "metadata": {"tags": [TAG]}} for text in sight.parameters]
        return notebook_preview(cells, sight.arguments)
    file = locate(sight.path, root)
    if file.suffix == ".py":
        return script_preview(file, sight.arguments)
    return notebook_preview(cells_of(file), sight.arguments)


def _parameters(request: Sending, root: Path) -> dict[str, Any]:
    """Return the values of the typed parameters. Raises `GateError` for one that its notebook cannot have."""
    typed = {name: text for name, text in request.arguments.items() if name != REST}
    if not typed:
        return {}
    values, problems = typed_parameters(cells_of(locate(request.path, root)), typed)
    for name, words in problems.items():
        raise GateError(Problem(status=422, code="invalid", message=words, field=f"arguments.{name}"))
    return values


def _captured(
    request: Sending, root: Path, options: Mapping[str, Any], parameters: Mapping[str, Any] = NO_PARAMETERS
) -> Captured:
    if request.command:
        work: str | Path | list[str] = request.command
        place = locate_directory(request.directory, root)
    else:
        file = locate(request.path, root)
        line, place = request.arguments.get(REST, "").strip(), file.parent
        work = _with_line(file, line) if line else Path(file.name)
    return capture(work, (), parameters, kernel_place(place).for_job(options))


def _with_line(file: Path, line: str) -> list[str]:
    """Return the command of a script with arguments. Raises `GateError` for those that cannot be read."""
    if file.suffix != ".py":
        message = f"{quoted(file.name)} takes no arguments as behind a command; only a script does."
        raise GateError(Problem(status=422, code="invalid", message=message, field=f"arguments.{REST}"))
    try:
        return script_command(file, line)
    except CaptureError as error:
        message = str(error)
        raise GateError(Problem(status=422, code="invalid", message=message, field=f"arguments.{REST}")) from None


@contextmanager
def _as_problems() -> Iterator[None]:
    """Raise `GateError` for any error that keeps a job from being sent."""
    try:
        yield
    except PoolError as error:
        raise GateError(error.problem) from None
    except Unreachable as error:
        raise GateError(Problem(status=503, code="unreachable", message=str(error))) from None
    except (CaptureError, OptionError) as error:
        raise GateError(Problem(status=422, code="not_sent", message=str(error))) from None
    except SpringtideError as error:
        raise GateError(Problem(status=503, code="no_pool", message=str(error))) from None


def locate(path: str, root: Path) -> Path:
    """Return the script or notebook that the path names below ``root``. Raises `GateError` for any other."""
    file = _below(path, root)
    if file is None or not file.is_file():
        raise _missing("file", path)
    if file.suffix not in SUFFIXES:
        message = f"{quoted(file.name)} is neither a Python script nor a notebook."
        hint = "Send it by a command, with pool.submit or `springtide submit`."
        raise GateError(Problem(status=422, code="not_sent", message=message, hint=hint))
    return file


def locate_directory(path: str, root: Path) -> Path:
    """Return the directory that the path names: ``root`` or one below it. Raises `GateError` for any other."""
    directory = _below(path, root)
    if directory is None or not directory.is_dir():
        raise _missing("directory", path)
    return directory


def _below(path: str, root: Path) -> Path | None:
    """Return the path in ``root`` if it is ``root`` or below it; a link there may lead out, as in JupyterLab."""
    try:
        top = root.expanduser().resolve()
        found = Path(os.path.normpath(top / path.lstrip("/")))
        return found if found.is_relative_to(top) and found.exists() else None
    except (OSError, ValueError):
        return None


def _missing(kind: str, path: str) -> GateError:
    message = f"There is no {kind} {quoted(path[:200])} below the directory of this notebook server."
    return GateError(Problem(status=404, code="not_found", message=message))
