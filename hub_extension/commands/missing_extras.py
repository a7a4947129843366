"""What a command needs that is not installed, and how to install it where the command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from springtide.scheduler.user_environments import installs_here, user_environments


def remedy(
    command: str, extra: str, environ: Mapping[str, str] = os.environ, *, can_install: bool | None = None
) -> str:
    """Return how the libraries of an extra are installed for a command, as the end of a sentence.

    It names the active environment, if the command does not run in that; else pip, if it can change this Python,
    as ``can_install`` says (None: as `installs_here` finds); else an environment of the person's own.
    """
    package = f"'springtide[{extra}]'" if extra else "springtide"
    active = environ.get("VIRTUAL_ENV", "")
    if active and (Path(active) / "bin/python").exists() and not _is_this(Path(active)):
        return (
            f"install it in the active environment {Path(active).name}, and use that one's Python: "
            f"python -m pip install {package}, then python -m springtide {command}"
        )
    if installs_here() if can_install is None else can_install:
        return f"pip install {package}"
    name = extra or "springtide"
    activate = user_environments(environ, lambda _line: None).root / name / "bin/activate"
    return (
        "the packages of this Python belong to the hub, so make an environment of your own: "
        f"springtide env create {name} {package}; source {activate}; springtide {command}"
    )


def _is_this(environment: Path) -> bool:
    """Return whether this Python is that of an environment."""
    return os.path.realpath(environment) == os.path.realpath(sys.prefix)
