"""Capture of a notebook's work, as it is at this moment.

Commands, scripts and notebooks are captured as on the command line; functions and cells are pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from springtide.scheduler import capture as commands
from springtide.scheduler.capture import (
    RUNNER,
    SOURCE_CAP,
    Captured,
    Here,
    capture_words,
    names_notebook,
    passed_as_they_are,
    sources,
    split_command,
    with_parameters,
)
from springtide.scheduler.capture.command import (
    in_place_note,
    outside_notes,
    project_of,
    search_path_variable,
    search_places,
)
from springtide.scheduler.capture.imports import Imports
from springtide.scheduler.capture.project import Project
from springtide.scheduler.wording import article, given
from springtide.training.names import MAIN, MAIN_TEXT, PAYLOAD
from springtide.widgets.errors import CaptureError
from springtide.widgets.submission.functions import Payload, called, pickle_call, pickle_cell, sources_of

Work: TypeAlias = Callable[..., Any] | str | Path | Sequence[str]
"""A function; a command; a script or notebook by its path; a command in words."""


def capture(work: Work, args: Sequence[Any], kwargs: Mapping[str, Any], here: Here) -> Captured:
    """Capture any kind of work. Raises `CaptureError` if it cannot be sent."""
    with own_errors():
        if isinstance(work, (str, Path)) or not callable(work):
            words = _words(work, here.cwd)
            is_notebook = bool(words) and names_notebook(words[0])
            if args or (kwargs and not is_notebook):
                raise CaptureError(_no_arguments(work, is_notebook=is_notebook))
            captured = capture_words(words, here)
            if isinstance(work, str):
                notes = (*captured.notes, *passed_as_they_are(work, words, here.cwd))
                captured = replace(captured, notes=notes)
            return with_parameters(captured, kwargs) if is_notebook else captured
        payload = pickle_call(work, args, kwargs, here.cwd)
        return _pickled(payload, called(work), here)


def capture_payload(payload: Payload, function: Callable[..., Any], here: Here) -> Captured:
    """Capture a function whose payload is made."""
    return _pickled(payload, called(function), here)


def capture_sources(function: Callable[..., Any], here: Here) -> Captured:
    """Capture the files and imports of a function, without its arguments."""
    modules = list(sources.local_modules(here.cwd))
    files, imports = sources_of(function, (), here.cwd, modules)
    return replace(_pickled(Payload(b"", files, "", imports=imports), called(function), here), files=files)


def capture_cell(text: str, namespace: dict[str, Any], hidden: Iterable[str], here: Here) -> Captured:
    """Capture a notebook cell with the variables it reads. Raises `CaptureError`."""
    with own_errors():
        return _pickled(pickle_cell(text, namespace, hidden, here.cwd), "cell", here)


def _no_arguments(work: object, *, is_notebook: bool) -> str:
    if is_notebook:
        return f"A notebook takes its parameters by name: pool.submit({str(work)!r}, lr=0.1)."
    return f"Only a function takes arguments; put those of {given(str(work))} into the command itself."


def _words(work: str | Path | Sequence[str], cwd: Path) -> list[str]:
    if isinstance(work, Path):
        return ["python", str(work)] if work.suffix == ".py" else [str(work)]
    if names_notebook(work) and (cwd / str(work)).is_file():
        return [str(work)]
    if isinstance(work, str):
        return split_command(work, cwd)
    if isinstance(work, Sequence) and not isinstance(work, bytes | bytearray):
        return list(work)
    msg = f"A job is a function, a command or a notebook; {given(work)} is {article(type(work).__name__)}."
    raise CaptureError(msg)


def _pickled(payload: Payload, name: str, here: Here) -> Captured:
    project = project_of(here, here.cwd)
    return Captured(
        kind="function",
        name=name,
        argv=(here.interpreter, "-m", RUNNER, "function", f"{{code}}/{PAYLOAD}"),
        program=here.python if here.searches else "",
        files={**payload.files, PAYLOAD: payload.data, MAIN: MAIN_TEXT.encode()},
        cwd=str(here.cwd),
        source=payload.source[:SOURCE_CAP],
        arguments=payload.arguments,
        env={} if project is None else search_path_variable(project, here, search_places(project, here.python)),
        notes=(*payload.notes, *_notes(payload, project, here)),
        sizes=payload.sizes,
        imports=payload.imports if project is None else _others(payload.imports, project),
        project=project,
    )


def _notes(payload: Payload, project: Project | None, here: Here) -> list[str]:
    if project is None:
        return [in_place_note(here)]
    values = [argument.value for argument in payload.arguments.values()]
    return [*project.notes(), *outside_notes(values, project, here.cwd)]


def _others(imports: Imports, project: Project) -> Imports:
    """Return the imports that are not of modules in the project's root or its top folders."""
    own = {path.partition("/")[0].removesuffix(".py") for path in project.modules(["."])}
    return Imports(
        frozenset(name for name in imports.required if name.partition(".")[0] not in own),
        frozenset(name for name in imports.optional if name.partition(".")[0] not in own),
    )


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise `CaptureError` of notebooks for those of capture."""
    try:
        yield
    except commands.CaptureError as error:
        raise CaptureError(str(error)) from None
