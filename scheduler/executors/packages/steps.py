"""The installation of a job's required packages before its command; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from springtide.scheduler.executors.packages import program

GIB: Final = 1 << 30
PLACE: Final = "~/.cache/springtide/environments"
"""The environments of an account, in its home directory: no other account writes there."""
PYTHON: Final = re.compile(r"python[0-9.]*")


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """The settings for the installation of required packages.

    ``most`` is the total size up to which the environments of one account are kept, in bytes, ``seconds`` the
    longest time to build one. ``variables`` are pip's environment variables, such as ``PIP_INDEX_URL``.
    """

    most: int = 20 * GIB
    seconds: float = 1800.0
    variables: Mapping[str, str] = field(default_factory=dict)


def in_environment(argv: Sequence[str], requirements: Sequence[str], settings: PackageSettings) -> list[str]:
    """Return the command that runs ``argv`` in the environment with the requirements."""
    return [*_program(argv, requirements, settings, "run"), *argv]


def prepare_step(
    argv: Sequence[str], requirements: Sequence[str], settings: PackageSettings, env: Mapping[str, str]
) -> dict[str, Any]:
    """Return the supervisor's step before the workers: the command, its variables, its time, its error message.

    ``env`` is the environment of the job's account without the job's own variables.
    """
    return {
        "argv": _program(argv, requirements, settings, "build"),
        "env": {**env, **settings.variables},
        "seconds": settings.seconds,
        "problem": "The packages that the job requires could not be installed",
    }


def _program(argv: Sequence[str], requirements: Sequence[str], settings: PackageSettings, what: str) -> list[str]:
    python = argv[0] if PYTHON.fullmatch(Path(argv[0]).name) else "python3"
    parameters = {"place": PLACE, "requirements": sorted(requirements), "most": settings.most}
    return [python, "-I", program.__file__, what, json.dumps(parameters)]
