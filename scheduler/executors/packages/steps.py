"""The installation of a job's required packages before its command; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from springtide.scheduler.executors.packages import program
from springtide.scheduler.settings import GIB, setting

PLACE: Final = "~/.cache/springtide/environments"
"""The environments of an account, in its home directory: no other account writes there."""
PYTHON: Final = re.compile(r"python[0-9.]*")


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """How required packages are installed."""

    packages_disk: float = setting(
        20.0,
        "The size up to which the environments of required packages are kept in the home directory of each "
        "account. Beyond it those used least recently are removed that no job uses.",
        unit="GiB",
        ge=0,
    )
    packages_time: float = setting(
        1800.0, "The longest time that the packages of one job may take to install.", unit="seconds", ge=1
    )
    pip_variables: Mapping[str, str] = setting(
        {},
        "Environment variables for pip when it installs required packages, such as PIP_INDEX_URL. Jobs' "
        "accounts can read them.",
    )


def in_environment(
    argv: Sequence[str], python: str, requirements: Sequence[str], settings: PackageSettings
) -> list[str]:
    """Return the command that runs ``argv`` in the environment with the requirements.

    The environment is on top of the Python that the command names, else of ``python``.
    """
    return [*_program(argv, python, requirements, settings, "run"), *argv]


def prepare_step(
    argv: Sequence[str],
    python: str,
    requirements: Sequence[str],
    settings: PackageSettings,
    env: Mapping[str, str],
) -> dict[str, Any]:
    """Return the supervisor's step before the workers: the command, its variables, its time, its error message.

    ``env`` is the environment of the job's account without the job's own variables.
    """
    return {
        "argv": _program(argv, python, requirements, settings, "build"),
        "env": {**env, **settings.pip_variables},
        "seconds": settings.packages_time,
        "problem": "The packages that the job requires could not be installed",
    }


def _program(
    argv: Sequence[str], python: str, requirements: Sequence[str], settings: PackageSettings, what: str
) -> list[str]:
    named = argv[0] if PYTHON.fullmatch(Path(argv[0]).name) else python
    arguments = {"place": PLACE, "requirements": sorted(requirements), "most": round(settings.packages_disk * GIB)}
    return [named, "-I", program.__file__, what, json.dumps(arguments)]
