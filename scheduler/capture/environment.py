"""The Python environment of captured code, as found at the place of submission."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from springtide.scheduler.capture import packages
from springtide.scheduler.capture.command import Captured
from springtide.scheduler.capture.imports import Imports
from springtide.scheduler.capture.program import PYTHON, Here, find, first_line, is_python
from springtide.scheduler.capture.variables import activation
from springtide.scheduler.wire import IMAGE_VARIABLE, MAX_PACKAGES, PythonEnvironment

ANSWER_S: Final = 10.0
"""Time for another Python to list its packages, in seconds."""


def python_environment(captured: Captured, here: Here | None = None) -> PythonEnvironment | None:
    """Return the program of a command, its Python, and the packages that the code imports; None if unknown.

    ``here`` is the place of the submission, None if the job gets nothing of its environment.
    """
    place = {} if here is None else _place(captured, here)
    python = interpreter(captured.program or captured.argv[0])
    found = _description(python, captured.imports) if python else None
    if found is None:
        if here is None or not place["variables"]:
            return None
        return _converted({**place, "path": find(PYTHON, here) or find("python", here)})
    named = dict(list(found["packages"].items())[:MAX_PACKAGES])
    found |= {"path": python, "packages": named, "missing": found["missing"][:MAX_PACKAGES]}
    found["imports"] = found["imports"][:MAX_PACKAGES]
    return _converted({**found, **place}) or _converted(place)


def _place(captured: Captured, here: Here) -> dict[str, Any]:
    image = here.variables.get(IMAGE_VARIABLE, "")
    return {"program": captured.program, "variables": activation(here), "image": image}


def interpreter(program: str) -> str:
    """Return the Python that a program is, or that its first line names; empty for any other program."""
    if not Path(program).is_absolute():
        return ""
    python = program if is_python(program) else next(iter(first_line(program)), "")
    return python if is_python(python) and Path(python).is_absolute() else ""


def _converted(found: Mapping[str, Any]) -> PythonEnvironment | None:
    try:
        return msgspec.convert(found, PythonEnvironment)
    except msgspec.ValidationError:
        return None


def _description(python: str, imports: Imports) -> dict[str, Any] | None:
    if python == sys.executable:
        return packages.described(imports.required, imports.optional)
    return _described_by(python, imports)


def _described_by(python: str, imports: Imports) -> dict[str, Any] | None:
    """Return the description that another Python prints of itself, None if it fails to."""
    request = json.dumps([sorted(imports.required), sorted(imports.optional)])
    try:
        answer = subprocess.run(
            [python, "-I", packages.__file__],
            input=request,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=True,
        )
        return msgspec.json.decode(answer.stdout, type=dict[str, Any])
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return None


@click.command("image-contents")
@click.option("--json", "_as_json", is_flag=True, help="Print JSON, which it does anyway.")
def image_contents(*, _as_json: bool) -> None:
    """Print the Python, packages and modules of this environment, as c.Springtide.image_contents takes them.

    Run it inside an image: docker run --rm IMAGE springtide image-contents > image.json
    """
    click.echo(json.dumps(packages.contents(), indent=1))
