"""The program of a command: the place of its submission, and what its words mean there.

A command means what a shell at that place would run: leading ``NAME=value`` words are variables, a program is
looked up in the search path, and a script that is named by itself runs as its first line says.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.shell_words import control_signs
from springtide.scheduler.wording import LONG_GIVEN, given, listed, plural

PYTHON: Final = "python3"
"""The interpreter in commands that name none: every environment and image with a Python has it by this name."""
PYTHONS: Final = frozenset({"python", PYTHON})
SCRIPT_SUFFIXES: Final = frozenset({".py", ".sh"})
GPU_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Variables that the pool sets for every worker."""
MAX_CHECKED: Final = 50
"""Maximum number of words that are searched for the parts of one file's name."""
MAX_PARTS: Final = 6
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Here:
    """The place of a submission: the working directory, its interpreter, the open notebook, its variables.

    ``python`` is the interpreter that ``python`` means there; empty for the first one of the search path.
    ``variables`` are those of a place on the pool's machine or in a notebook of the pool. Those of any other place
    have no ``PATH``: then the words of a command stay as they are, and ``python`` becomes that of here.
    With ``in_place`` nothing of the project is copied; ``home`` is the home directory.
    """

    cwd: Path
    python: str = sys.executable
    notebook: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    in_place: bool = False
    home: Path = field(default_factory=Path.home)

    def for_job(self, options: Mapping[str, object]) -> Here:
        """Return the place for a job with these options."""
        return replace(self, in_place=options.get("in_place") is True)

    @property
    def searches(self) -> bool:
        """Whether programs are looked up here."""
        return "PATH" in self.variables

    @property
    def interpreter(self) -> str:
        """The interpreter in the words of functions and notebooks."""
        return PYTHON if self.searches else self.python or PYTHON


@dataclass(frozen=True, slots=True)
class Program:
    """A command as a shell would run it.

    ``command`` are its words without its variables, ``words`` those that run: with the interpreter of a script
    that was named by itself, whose index is ``script``. ``path`` is the absolute path of the program, empty if
    there is none here. ``notes`` are for the user.
    """

    command: tuple[str, ...]
    words: tuple[str, ...]
    path: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    script: int | None = None
    notes: tuple[str, ...] = ()


def program_of(command: Sequence[str], here: Here) -> Program:
    """Return the program of a command. Raises `CaptureError` if a part of the command cannot be meant as it is."""
    variables, typed = _assignments(command, here.cwd)
    notes = []
    chosen = [name for name in GPU_VARIABLES if variables.pop(name, None) is not None]
    if chosen:
        notes.append(chosen_by_pool(chosen))
    launcher = _launcher(typed[0], here)
    script = None if launcher is None else len(launcher)
    words = [*(launcher or ()), *typed]
    if words[0] in PYTHONS and not here.searches:
        words[0] = here.python or words[0]
    path = find(words[0], here)
    if words[0] == "python" and not path and (path := find(PYTHON, here)):
        notes.append(f"There is no python on your PATH; {path} is used.")
    return Program(tuple(typed), tuple(words), path, variables, script, tuple(notes))


def find(word: str, here: Here) -> str:
    """Return the absolute path of a program, empty if there is none here or this is no place to look it up."""
    if not here.searches:
        return ""
    if word in PYTHONS and here.python:
        return here.python
    if "/" in word:
        path = os.path.normpath(here.cwd / word)
        return path if os.path.isfile(path) and os.access(path, os.X_OK) else ""  # noqa: PTH113 - any text
    found = shutil.which(word, path=here.variables["PATH"])
    conda = here.variables.get("CONDA_EXE", "")  # in a shell, conda is often a function
    return found or (conda if word == "conda" and os.access(conda, os.X_OK) else "")


def is_python(word: str) -> bool:
    """Return whether a word of a command is a Python interpreter."""
    return re.fullmatch(r"(python|pypy)[0-9.]*", Path(word).name) is not None


def first_line(path: str | Path) -> list[str]:
    """Return the words of a script's first line, which name its interpreter; empty for any other file."""
    try:
        with Path(path).open("rb") as file:
            first = file.read(400).split(b"\n", 1)[0].decode(errors="replace")
        words = shlex.split(first[2:]) if first.startswith("#!") else []
    except (OSError, ValueError):
        return []
    if words and Path(words[0]).name == "env":
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
    return words


def split_command(command: str, cwd: Path | None = None) -> list[str]:
    """Return the words of a command given as one text; the name of a file below ``cwd`` is that file.

    Raises `CaptureError` for a command that needs a shell, and for a file's name that its spaces divide.
    """
    if cwd is not None and is_file(cwd, command.strip()):
        return [command.strip()]
    try:
        words = shlex.split(command)
    except ValueError as error:
        msg = f"The command {given(command)} cannot be read: {error}. Quote it as a shell does."
        raise CaptureError(msg) from None
    if not words:
        msg = "The command is empty. Say what to run, such as 'python train.py'."
        raise CaptureError(msg)
    shell = control_signs(command)
    if shell:
        msg = (
            f"A command runs without a shell, so {given(shell[0])} means nothing in it. For a shell's features "
            f"send ['bash', '-c', {command!r}]."
        )
        raise CaptureError(msg)
    if cwd is not None:
        _check_quotes(words, cwd)
    return words


def _check_quotes(words: Sequence[str], cwd: Path) -> None:
    """Raise `CaptureError` if several words together are the name of a file, and the first of them is none."""
    checked = words[:MAX_CHECKED]
    for start in range(len(checked)):
        if is_file(cwd, checked[start]):
            continue
        for end in range(start + 2, min(start + MAX_PARTS, len(checked)) + 1):
            name = " ".join(checked[start:end])
            if is_file(cwd, name):
                quoted = shlex.join([*words[:start], name, *words[end:]])
                msg = f"{given(name)} is one file, and its name has a space. Put it in quotes: {quoted}"
                raise CaptureError(msg)


def is_file(cwd: Path, name: str) -> bool:
    """Return whether a text, which may be any, is the path of a file."""
    return bool(name) and os.path.isfile(cwd / name)  # noqa: PTH113 - the name may be any text


def _assignments(command: Sequence[str], cwd: Path) -> tuple[dict[str, str], list[str]]:
    """Return the variables that begin a command, also after a plain ``env``, and its other words."""
    words = list(command)
    if words[0] == "env" and len(words) > 2 and _is_assignment(words[1], cwd):
        place = next((at for at, word in enumerate(words[1:], 1) if not _is_assignment(word, cwd)), len(words))
        if place < len(words) and not words[place].startswith("-"):
            words = words[1:]
    variables: dict[str, str] = {}
    while words and _is_assignment(words[0], cwd):
        name, _, value = words.pop(0).partition("=")
        if not _NAME.fullmatch(name):
            msg = (
                f"{given(name)} cannot be the name of an environment variable: such names have letters, digits "
                "and “_”, and begin with no digit."
            )
            raise CaptureError(msg)
        variables[name] = value
    if not words:
        msg = f"The command has variables alone ({listed(list(variables))}). Say what to run after them."
        raise CaptureError(msg)
    return variables, words


def _is_assignment(word: str, cwd: Path) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and "/" not in name and not name.startswith("-") and not is_file(cwd, word)


def chosen_by_pool(names: Sequence[str]) -> str:
    """Return the note about variables that the pool sets, and not the submission."""
    left_out = f"{listed(list(names))} {plural(len(names), 'was', 'were')} left out"
    return f"{left_out}: the pool chooses the GPUs of a job, and its option gpus their number."


def _launcher(word: str, here: Here) -> list[str] | None:
    """Return the words that start a script named by itself, by its first line; None for any other program."""
    script = here.cwd / word
    if Path(word).suffix in SCRIPT_SUFFIXES:
        if not is_file(here.cwd, word):
            if "/" not in word and find(word, here):
                return None
            require(script)
    elif "/" not in word or Path(word).is_absolute() or not is_file(here.cwd, word):
        return None
    words = first_line(script)
    if words:
        return words
    if script.suffix == ".py":
        return ["python"]
    if not script.suffix and os.access(script, os.X_OK):
        return None
    msg = f"{script.name} does not say what runs it. Begin it with a line such as #!/bin/bash."
    raise CaptureError(msg)


def require(path: Path) -> None:
    """Raise `CaptureError` with the names of similar files if a path is none of a file."""
    if path.is_file():
        return
    there = os.path.lexists(path)
    what = "does not exist"
    if there:
        leads_nowhere = path.is_symlink() and not path.exists()
        what = "is a link that leads to nothing" if leads_nowhere else "is no plain file"
        what = "is a directory, not a file" if path.is_dir() else what
    beside = [] if there or not path.parent.is_dir() else path.parent.glob(f"*{path.suffix}")
    near = sorted(other.name for other in beside if other.is_file())
    hint = f" {path.parent} has {listed([given(name, LONG_GIVEN) for name in near])}." if near else ""
    if not there and any(part.startswith(("~", "$")) or "*" in part for part in path.parts):
        hint = " A command runs without a shell, so “~”, “$” and “*” stay as they are: write the path out."
    msg = f"The file {path} {what}.{hint} Give its path from the working directory."
    raise CaptureError(msg)
