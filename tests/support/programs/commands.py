"""Commands that are run to completion, and the steps of `make tools`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

SYSTEM_DIRECTORIES = ":/usr/local/sbin:/usr/sbin:/sbin"


class CommandError(RuntimeError):
    """A command ended with an exit code other than 0; the message has the command, the code and its output."""


def search_path(environment: Mapping[str, str] = os.environ) -> str:
    """Return ``PATH`` with the directories of the administrator's programs, which `PATH` of other users lacks."""
    return environment.get("PATH", "") + SYSTEM_DIRECTORIES


def run(*command: str | Path, cwd: Path | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """Run a command to completion and return its standard output; raise `CommandError` when it fails."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**environment, "PATH": search_path(environment)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        output = f"{done.stdout}{done.stderr}"
        raise CommandError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{output}")
    return done.stdout


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print one line for an item built in this block: its name, and the time in seconds when it is complete."""
    print(f"  {name} ... ", end="", flush=True)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - started:.0f} s", flush=True)
