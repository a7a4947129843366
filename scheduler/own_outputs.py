"""Which files of a job's own working folder are outputs, beside those of its output directory; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "work/"
"""Beginning of the names of such outputs; the path in the working directory follows."""
EVENTS: Final = "events.out.tfevents."
"""Beginning of the names of event files of TensorBoard."""
FOUND: Final = (
    "*",
    f"**/{EVENTS}*",
    "**/wandb/**",
    "**/lightning_logs/**",
    "**/mlruns/**",
    "outputs/**",
    "multirun/**",
)
"""Patterns of outputs in every working directory: its top, TensorBoard, W&B, Lightning, MLflow and Hydra."""
ANY: Final = "**"
"""Stands in a pattern for any number of folders."""


@dataclass(frozen=True, slots=True)
class OwnOutputs:
    """The outputs in a job's own working folder: ``base`` is the directory it works in; ``patterns`` name more."""

    base: str
    patterns: tuple[str, ...] = ()

    def name_of(self, path: str) -> str | None:
        """Return the name of the output at a path in the working folder, None if it is no output."""
        inside = path if not self.base else path.removeprefix(f"{self.base}/")
        if self.base and inside == path:
            return None
        fits = any(matches(inside, pattern) for pattern in (*FOUND, *self.patterns))
        return f"{PREFIX}{inside}" if fits else None

    def path_of(self, name: str) -> str | None:
        """Return the path in the working folder of an output with this name, None if it cannot be one."""
        if not name.startswith(PREFIX):
            return None
        inside = name.removeprefix(PREFIX)
        if not all(inside.split("/")) or {".", ".."}.intersection(inside.split("/")):
            return None
        path = f"{self.base}/{inside}" if self.base else inside
        return path if self.name_of(path) == name else None


def is_event_file(name: str) -> bool:
    """Return whether an output is an event file of TensorBoard."""
    return name.rpartition("/")[2].startswith(EVENTS)


def problem(pattern: str) -> str:
    """Return why a pattern is none, empty if it is one."""
    if not pattern or pattern.startswith("/") or not all(map(str.isprintable, pattern)):
        return "is not relative to the working directory"
    if ".." in pattern.split("/"):
        return "leaves the working directory"
    return ""


def matches(path: str, pattern: str) -> bool:
    """Return whether a relative path matches a pattern; names with a leading dot need one in the pattern.

    ``*`` and ``?`` match characters of a name, ``**`` for any number of folders. The time is linear in the
    lengths of both: patterns and paths are not trusted.
    """
    parts = path.split("/")
    reached = {0}
    for wanted in pattern.rstrip("/").split("/"):
        if wanted == ANY:
            for at in range(len(parts)):
                if at in reached and not parts[at].startswith("."):
                    reached.add(at + 1)
        else:
            reached = {at + 1 for at in reached if at < len(parts) and _fits(parts[at], wanted)}
    return len(parts) in reached


def _fits(name: str, wanted: str) -> bool:
    if name.startswith(".") and not wanted.startswith("."):
        return False
    at = place = 0
    star = mark = -1
    while at < len(name):
        if place < len(wanted) and wanted[place] == "*":
            star, mark = place, at
            place += 1
        elif place < len(wanted) and wanted[place] in {"?", name[at]}:
            at, place = at + 1, place + 1
        elif star >= 0:
            mark += 1
            at, place = mark, star + 1
        else:
            return False
    return not wanted[place:].strip("*")


@dataclass(frozen=True, slots=True)
class Opener:
    """A folder among outputs that a tool shows: ``command`` opens it after a download of the outputs."""

    tool: str
    folder: str
    command: str


def openers(names: Iterable[str]) -> list[Opener]:
    """Return the folders of TensorBoard, W&B and MLflow among the names of outputs."""
    return list(dict.fromkeys(_openers(names)))


def _openers(names: Iterable[str]) -> Iterator[Opener]:
    for name in names:
        *folders, _ = name.split("/")
        if is_event_file(name):
            kept = 2 if name.startswith(PREFIX) else 1
            folder = "/".join(folders[:kept]) or "."
            yield Opener("TensorBoard", folder, f"tensorboard --logdir {shlex.quote(folder)}")
        for tool, mark, command in (
            ("W&B", "wandb", "wandb sync --sync-all {}"),
            ("MLflow", "mlruns", "mlflow ui --backend-store-uri {}"),
        ):
            if mark in folders:
                folder = "/".join(folders[: folders.index(mark) + 1])
                yield Opener(tool, folder, command.format(shlex.quote(folder)))
