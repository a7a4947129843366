"""The place of a submission: a terminal or a notebook's kernel, as this process finds itself in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.program import PYTHON, Here, find
from springtide.scheduler.wire import MAX_VARIABLE
from springtide.scheduler.wording import LONG_GIVEN, given, is_printable

ANSWER_S: Final = 10.0
"""Time for another Python to say whether it has the training library, in seconds."""


def working_directory() -> Path:
    """Return the working directory of this process. Raises `CaptureError` if it was removed."""
    removed = removed_working_directory()
    if removed is not None:
        raise CaptureError(removed)
    return Path.cwd()


def removed_working_directory() -> str | None:
    """Return the sentences about a working directory that was removed, None while it is there."""
    try:
        Path.cwd()
    except FileNotFoundError:
        where = given(str(Path("/proc/self/cwd").readlink()).removesuffix(" (deleted)"), LONG_GIVEN)
        return f"The working directory {where} was removed. Change to a directory that is there: cd ~"
    return None


def terminal_place(cwd: Path, environ: Mapping[str, str] = os.environ) -> Here:
    """Return the place of a command that is typed into a terminal: programs are those that its shell finds."""
    path = search_path(environ.get("PATH", os.defpath), cwd)
    return Here(cwd, "", variables={**environ, "PATH": path})


def kernel_place(cwd: Path, notebook: Path | None = None, environ: Mapping[str, str] = os.environ) -> Here:
    """Return the place of a kernel: its interpreter comes first, whichever environment its server runs in."""
    prefix = Path(sys.prefix)
    path = search_path(f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', os.defpath)}", cwd)
    variables = environment_variables(
        environ,
        prefix,
        venv=(prefix / "pyvenv.cfg").is_file(),
        conda=(prefix / "conda-meta").is_dir(),
    )
    return Here(cwd, sys.executable, notebook, {**variables, "PATH": path})


def elsewhere(cwd: Path, python: str, environ: Mapping[str, str] = os.environ) -> Here:
    """Return a place on another machine than the pool's: a job gets what it carries; ``python`` is the job's."""
    return Here(cwd, python, variables={name: value for name, value in environ.items() if name != "PATH"})


def with_training(here: Here) -> tuple[Here, tuple[str, ...]]:
    """Return the place with an interpreter that has the training library, for a notebook, and notes about it.

    That is the first one of the search path, else the one of this process.
    """
    python = find(PYTHON, here)
    if python and _has_training(python):
        return here, ()
    found = python or "No Python"
    missing = "does not have springtide" if python else "is on your PATH"
    note = f"{found} {missing}, so the notebook runs with {sys.executable}, that of the springtide command."
    return replace(here, python=sys.executable), (note,)


def search_path(text: str, cwd: Path) -> str:
    """Return a search path with absolute directories, each once; without those that no job could be sent."""
    whole = [os.path.normpath(cwd / entry) for entry in text.split(os.pathsep)]
    kept: list[str] = []
    length = 0
    for entry in dict.fromkeys(whole):
        length += len(entry.encode(errors="replace")) + 1
        if length > MAX_VARIABLE:
            break
        if is_printable(entry):
            kept.append(entry)
    return os.pathsep.join(kept)


def environment_variables(environ: Mapping[str, str], prefix: Path, *, venv: bool, conda: bool) -> dict[str, str]:
    """Return the variables of a kernel as they are once its own environment is activated."""
    other = {"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"}
    found = {name: value for name, value in environ.items() if name not in other}
    if venv:
        found["VIRTUAL_ENV"] = str(prefix)
    if conda:
        found["CONDA_PREFIX"], found["CONDA_DEFAULT_ENV"] = str(prefix), prefix.name
    return found


def _has_training(python: str) -> bool:
    if python == sys.executable:
        return True
    question = [python, "-I", "-c", "import springtide.training"]
    try:
        answer = subprocess.run(question, capture_output=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return answer.returncode == 0
