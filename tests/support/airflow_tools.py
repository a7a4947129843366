"""A virtual environment with Apache Airflow, in the cache: its packages are not those of hubs and notebooks.

It has what the extra ``airflow`` asks for and nothing else of ours, so that the modules of that extra are imported
with it alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster_tools import ToolsMissingError, cache
from commands import run, step

PINNED = Path(__file__).with_name("airflow_packages.txt")
UV = "uv==0.13.9"
"""What installs the packages: pip takes eight times as long for as many."""
COMPLETE = "complete"


def interpreter(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the interpreter of the environment. Raises `ToolsMissingError` if it is not complete."""
    directory = _directory(environment)
    if not (directory / COMPLETE).exists():
        raise ToolsMissingError(f"Airflow is not installed in {directory}: run `make frameworks`")
    return directory / "bin" / "python"


def build(environment: Mapping[str, str] = os.environ) -> Path:
    """Install Airflow unless it is, and return the interpreter.

    Several processes may call this at once: one installs, the others wait for it.
    """
    directory = _directory(environment)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / "airflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / COMPLETE).exists():
            with step("Airflow, 200 MB"):
                _install(directory)
                (directory / COMPLETE).touch()
    return interpreter(environment)


def _install(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    run(sys.executable, "-m", "venv", directory)
    python = directory / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-cache-dir", UV)
    uv = (directory / "bin" / "uv", "pip", "install", "--quiet", "--no-cache", "--python", python)
    run(*uv, "--compile-bytecode", "--no-deps", "--requirement", PINNED)


def _directory(environment: Mapping[str, str]) -> Path:
    recipe = repr((PINNED.read_text(), UV, sys.version_info[:2]))
    return cache(environment) / f"airflow-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


if __name__ == "__main__":
    print(build())
