"""The ``springtide`` command in a terminal, as a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


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
    """Runs the command as a user."""

    def __call__(self, *words: str, user: str = "susan") -> Done: ...


def springtide(*words: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
    """Run the command."""
    ours = ("SPRINGTIDE", "JUPYTERHUB")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [sys.executable, "-m", "springtide.hub_extension.command", *words],
        env=environment | (env or {}), cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)
