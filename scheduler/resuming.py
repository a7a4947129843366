"""The option ``resume`` of a job: arguments that its command gets when it resumes; pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Final

from springtide.scheduler.model import Checkpoint
from springtide.scheduler.wording import given

PLACEHOLDER: Final = "{checkpoint}"
"""Stands in the option for the path of the newest recognised checkpoint."""
_PLACEHOLDERS: Final = re.compile(r"\{\w+\}?")
SHELLS: Final = frozenset({"bash", "sh", "dash", "zsh", "ksh"})


def problem(resume: str, kind: str, argv: Sequence[str]) -> tuple[str, str] | None:
    """Return why a program cannot get these arguments, and a hint; None if it can."""
    if kind != "command":
        return (
            f"A {kind} has no command line that arguments could be added to.",
            "Load its checkpoint with current_job().restore() of springtide.training.",
        )
    try:
        words = shlex.split(resume)
    except ValueError as error:
        return f"The arguments cannot be read: {error}.", "Quote them as a shell does."
    if not words or any("\0" in word for word in words):
        return "No arguments are given.", "An example: --resume checkpoints/last.pt"
    near = get_close_matches(PLACEHOLDER, _PLACEHOLDERS.findall(resume), n=1)
    if near and near[0] != PLACEHOLDER:
        return f"{given(near[0])} is no placeholder.", f"Did you mean {PLACEHOLDER}?"
    if argv and runs_text(argv):
        return (
            f"{given(argv[0])} runs a text here, which takes no further arguments.",
            f'Put it into a script that ends with … "$@", and send: {PurePosixPath(argv[0]).name} script.sh',
        )
    return None


def runs_text(argv: Sequence[str]) -> bool:
    """Return whether a command is a shell with the option ``-c``."""
    if PurePosixPath(argv[0]).name not in SHELLS:
        return False
    words = iter(argv[1:])
    for word in words:
        if not word.startswith(("-", "+")) or word == "--":
            return False
        if word in {"-o", "+o", "-O", "+O"}:
            next(words, None)
            continue
        if not word.startswith("--") and "c" in word:
            return True
    return False


def arguments(resume: str | None, checkpoint: Checkpoint | None, *, saved: bool) -> tuple[str, ...]:
    """Return the arguments of a job's next attempt.

    There are none before the job has ``saved`` anything, nor if they name a checkpoint and none was recognised.
    """
    if resume is None or not saved or (PLACEHOLDER in resume and checkpoint is None):
        return ()
    path = "" if checkpoint is None else checkpoint.path
    return tuple(word.replace(PLACEHOLDER, path) for word in shlex.split(resume))


def names_checkpoint(resume: str | None, checkpoint: Checkpoint) -> bool:
    """Return whether the arguments of a job's next attempt name this checkpoint."""
    return resume is not None and (PLACEHOLDER in resume or checkpoint.path in named_paths(resume))


def takes_any(resume: str | None) -> bool:
    """Return whether the arguments name no path, as ``--resume`` alone: the program knows where its own is."""
    return resume is not None and PLACEHOLDER not in resume and not named_paths(resume)


def named_paths(resume: str) -> list[str]:
    """Return the paths in the working directory that the arguments may name, such as of ``--resume=last.pt``."""
    values = (word.partition("=")[2] if word.startswith("-") else word for word in shlex.split(resume))
    paths = [PurePosixPath(value) for value in values if value and PLACEHOLDER not in value]
    return [str(path) for path in paths if not path.is_absolute() and ".." not in path.parts and path.name]
