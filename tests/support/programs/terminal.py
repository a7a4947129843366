"""The ``springtide`` command: as a process, and within this one if a test does not need the process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from click.testing import CliRunner
from patience import PATIENCE_S

from springtide.hub_extension.command import main
from springtide.scheduler.capture.variables import WELL_KNOWN


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output, which is one JSON document."""
        assert self.code == 0, self.err
        return json.loads(self.out)


class Run(Protocol):
    """Runs the command as a user, with further environment variables."""

    def __call__(self, *words: str, user: str = "susan", variables: Mapping[str, str] = {}) -> Done: ...


OURS = ("SPRINGTIDE", "JUPYTERHUB")
"""Prefixes of environment variables that the command sees only if a test sets them."""


def is_well_known(name: str) -> bool:
    """Return whether a command mentions a variable that it does not send."""
    return any(fnmatchcase(name, pattern) for pattern in WELL_KNOWN)


def springtide(*words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Done:
    """Run the command as a process, as a terminal does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    done = subprocess.run(
        [sys.executable, "-m", "springtide", *words],
        env=environment | dict(env or {}), cwd=cwd, capture_output=True, text=True, check=False,
        timeout=2 * PATIENCE_S,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def called(*words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Done:
    """Call the command within this process: what it says and its exit code are those of the process."""
    hidden = dict.fromkeys(name for name in os.environ if name.startswith(OURS) or is_well_known(name))
    with contextlib.chdir(cwd or Path.cwd()):
        done = CliRunner().invoke(main, words, env={**hidden, **(env or {})}, prog_name="springtide")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)
