"""A virtual environment with the real MLflow and TensorBoard, in the cache: the service needs neither."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from airflow_tools import COMPLETE, UV
from cluster_tools import ToolsMissingError, cache
from commands import run, step

PINNED = Path(__file__).with_name("tracking_packages.txt")


def interpreter(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the interpreter of the environment. Raises `ToolsMissingError` if it is not complete."""
    directory = _directory(environment)
    if not (directory / COMPLETE).exists():
        raise ToolsMissingError(f"MLflow is not installed in {directory}: run `make frameworks`")
    return directory / "bin" / "python"


def build(environment: Mapping[str, str] = os.environ) -> Path:
    """Install MLflow and TensorBoard unless they are, and return the interpreter.

    Several processes may call this at once: one installs, the others wait for it.
    """
    directory = _directory(environment)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / "tracking.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / COMPLETE).exists():
            with step("MLflow and TensorBoard, 800 MB"):
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
    return cache(environment) / f"tracking-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


if __name__ == "__main__":
    print(build())
