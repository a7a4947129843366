"""Capture of a command, script or notebook at the moment of submission, with the user's own code that it needs.

Later edits of the script or a module next to it do not change the job. Only data is read in place, when the job
runs.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from springtide.scheduler.capture import sources
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.imports import Imports, imports_of_cells, reached_imports
from springtide.scheduler.wording import given

RUNNER = "springtide.training.run"
SOURCE_CAP = 200_000
SCRIPT_SUFFIXES = frozenset({".py", ".sh"})
SHELL = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured program: the parts of a `Submission` that define what runs.

    ``source`` is its short description for people, ``notes`` are remarks for the user, ``sizes`` the bytes of its
    largest variables, ``imports`` its imports from outside of ``files``.
    """

    kind: str
    name: str
    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    cwd: str
    source: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    imports: Imports = Imports()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True)
class Here:
    """The place of the submission: the working directory, its interpreter, the open notebook."""

    cwd: Path
    python: str = sys.executable
    notebook: Path | None = None


def capture_notebook(path: Path, here: Here) -> Captured:
    """Capture a notebook as it was last saved, with the modules it imports from its own directory."""
    whole = here.cwd / path
    _require(whole)
    content = sources.read(whole)
    cells = _code_cells(content, path)
    imports = imports_of_cells(cells)
    modules = sources.imported_files(imports.all, whole.parent)
    files = {**modules, path.name: content}
    notes = [f"Sent {path.name} as it was last saved."]
    if here.notebook is not None and here.notebook.resolve() == whole.resolve():
        notes = [f"Sent {path.name} as it was last saved: changes made after that are not part of the job."]
    return Captured(
        kind="notebook",
        name=path.stem,
        argv=(here.python, "-m", RUNNER, "notebook", f"{{code}}/{path.name}"),
        files=files,
        cwd=str(whole.parent),
        source="\n\n".join(cells)[:SOURCE_CAP],
        notes=tuple(notes),
        imports=reached_imports(modules, (), imports),
    )


def capture_command(argv: Sequence[str], here: Here) -> Captured:
    """Capture a command; a script it names is sent with the Python files beside it.

    ``python`` means the notebook's own interpreter, and ``python -m`` of a module in the working directory is
    captured as well. The working directory stays the user's.
    """
    if not argv or not all(isinstance(word, str) for word in argv):
        msg = f"A command is a text or a list of texts, not {given(argv)}."
        raise CaptureError(msg)
    words = [_interpreter(argv[0], here), *argv[1:]]
    source = shlex.join(argv)[:SOURCE_CAP]
    module = _module_option(words) if is_python(words[0]) else None
    if module is not None and sources.module_path(module[1].split(".")[0], here.cwd) is not None:
        return _capture_module(words, module, here, source)
    place = _script_place(words, here.cwd)
    if place is None:
        return Captured("command", Path(argv[0]).name, tuple(words), {}, str(here.cwd), source)
    script = here.cwd / words[place]
    _require(script)
    files = {**sources.tree(script.parent), script.name: sources.read(script)}
    if place == 0:
        words[:1] = _launcher(script, here)
        place = len(words) - len(argv)
    words[place] = f"{{code}}/{script.name}"
    imports = reached_imports(files, [script.name])
    return Captured("command", script.stem, tuple(words), files, str(here.cwd), source, imports=imports)


def _capture_module(words: list[str], option: tuple[int, str], here: Here, source: str) -> Captured:
    place, module = option
    name = module.rpartition(".")[2]
    if words[0] != here.python:
        note = f"{words[0]} reads the module {module} as it is when the job starts, not as it is now."
        return Captured("command", name, tuple(words), {}, str(here.cwd), source, notes=(note,))
    argv = (*words[:place], "-P", *words[place:])
    env, files = {"PYTHONPATH": "{code}"}, sources.tree(here.cwd)
    imports = reached_imports(files, (), Imports(frozenset({module, f"{module}.__main__"})))
    return Captured("command", name, argv, files, str(here.cwd), source, env, imports=imports)


def split_command(command: str) -> list[str]:
    """Return the words of a command given as one text. Raises `CaptureError` for a command that needs a shell."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        msg = f"The command {given(command)} cannot be read: {error}."
        raise CaptureError(msg) from None
    if not words:
        msg = "The command is empty. Say what to run, such as 'python train.py'."
        raise CaptureError(msg)
    shell = [word for word in words if word in SHELL]
    if shell:
        msg = (
            f"A command runs without a shell, so {given(shell[0])} means nothing in it. For a shell's features "
            f"send ['bash', '-c', {command!r}]."
        )
        raise CaptureError(msg)
    return words


def _interpreter(word: str, here: Here) -> str:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return here.python if word in {"python", "python3", version} else word


def is_python(word: str) -> bool:
    """Return whether a word of a command is a Python interpreter."""
    return re.fullmatch(r"(python|pypy)[0-9.]*", Path(word).name) is not None


def _module_option(words: Sequence[str]) -> tuple[int, str] | None:
    place = _first_operand(words)
    if place is None or words[place] != "-m" or place + 1 >= len(words):
        return None
    return place, words[place + 1]


def _first_operand(words: Sequence[str]) -> int | None:
    """Return the index at which the interpreter's own options end: the script, ``-m`` or ``-c``."""
    place = 1
    while place < len(words):
        word = words[place]
        if word in {"-m", "-c"} or not word.startswith("-"):
            return place
        place += 2 if word in {"-W", "-X"} else 1
    return None


def _script_place(words: Sequence[str], cwd: Path) -> int | None:
    if is_python(words[0]):
        first = _first_operand(words)
        if first is None or words[first] == "-c":
            return None
        if words[first] != "-m":
            return first
    for place, word in enumerate(words):
        if Path(word).suffix in SCRIPT_SUFFIXES and (place == 0 or not word.startswith("-")):
            return place
        if place == 0 and "/" in word and not Path(word).is_absolute() and (cwd / word).is_file():
            return place
    return None


def _launcher(script: Path, here: Here) -> list[str]:
    """Return the words that start a script named by itself, by its first line: the copy is not executable."""
    first = sources.read(script)[:200].split(b"\n", 1)[0].decode(errors="replace")
    if first.startswith("#!"):
        words = shlex.split(first[2:])
        if words and Path(words[0]).name == "env":
            words = words[1:]
        if words:
            return [_interpreter(Path(words[0]).name, here) if is_python(words[0]) else words[0], *words[1:], ""]
    if script.suffix == ".py":
        return [here.python, ""]
    msg = f"{script.name} does not say what runs it. Begin it with a line such as #!/bin/bash."
    raise CaptureError(msg)


def _require(path: Path) -> None:
    if path.is_file():
        return
    what = "is a directory, not a file" if path.is_dir() else "does not exist"
    near = sorted(other.name for other in path.parent.glob(f"*{path.suffix}")) if path.parent.is_dir() else []
    hint = f" {path.parent} has {', '.join(near[:5])}." if near else ""
    msg = f"The file {path} {what}.{hint} Give its path from the working directory."
    raise CaptureError(msg)


def _code_cells(content: bytes, path: Path) -> list[str]:
    try:
        cells = json.loads(content)["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        msg = f"{path.name} is not a notebook of format 4, such as JupyterLab saves."
        raise CaptureError(msg) from None
    return texts
