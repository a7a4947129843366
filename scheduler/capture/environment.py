"""The Python environment of captured code, as found at the place of submission."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from springtide.scheduler.capture import packages
from springtide.scheduler.capture.command import Captured, is_python
from springtide.scheduler.capture.imports import Imports
from springtide.scheduler.wire import MAX_PACKAGES, PythonEnvironment

ANSWER_S: Final = 10.0
"""Time for another Python to list its packages, in seconds."""


def python_environment(captured: Captured) -> PythonEnvironment | None:
    """Return the Python that the command names, and the packages that the code imports; None if it names none."""
    python = captured.argv[0]
    if not is_python(python) or not Path(python).is_absolute():
        return None
    found = (
        packages.described(captured.imports.required, captured.imports.optional)
        if python == sys.executable
        else _described_by(python, captured.imports)
    )
    if found is None:
        return None
    named = dict(list(found["packages"].items())[:MAX_PACKAGES])
    found |= {"path": python, "packages": named, "missing": found["missing"][:MAX_PACKAGES]}
    found["imports"] = found["imports"][:MAX_PACKAGES]
    try:
        return msgspec.convert(found, PythonEnvironment)
    except msgspec.ValidationError:
        return None


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
