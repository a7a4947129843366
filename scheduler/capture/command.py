"""Capture of a command, script or notebook at the moment of submission, with the user's own code that it needs.

Later edits of the script or a module next to it do not change the job. Only data is read in place, when the job
runs.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from springtide.scheduler.capture import sources
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.imports import Imports, imports_of_cells, reached_imports
from springtide.scheduler.capture.program import (
    SCRIPT_SUFFIXES,
    Here,
    Program,
    find,
    is_file,
    is_python,
    minor_version,
    program_of,
    require,
)
from springtide.scheduler.wording import given

RUNNER = "springtide.training.run"
SOURCE_CAP = 200_000
SAFE_PATH = 11
"""The first Python 3 with the option ``-P``."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured program: the parts of a `Submission` that define what runs.

    ``program`` is the absolute path of the program that the first word means at the place of submission, empty
    if there is none. ``source`` is its short description for people, ``notes`` are remarks for the user, ``sizes``
    the bytes of its largest variables, ``imports`` its imports from outside of ``files``.
    """

    kind: str
    name: str
    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    cwd: str
    source: str = ""
    program: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    imports: Imports = Imports()  # noqa: RUF009 - frozen


def capture_words(words: Sequence[str], here: Here) -> Captured:
    """Capture the words of a command line: a notebook named alone, or a command."""
    if len(words) == 1 and str(words[0]).endswith(".ipynb"):
        return capture_notebook(Path(words[0]), here)
    return capture_command(words, here)


def capture_notebook(path: Path, here: Here) -> Captured:
    """Capture a notebook as it was last saved, with the modules it imports from its own directory."""
    whole = here.cwd / path
    require(whole)
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
        argv=(here.interpreter, "-m", RUNNER, "notebook", f"{{code}}/{path.name}"),
        program=find(here.interpreter, here),
        files=files,
        cwd=str(whole.parent),
        source="\n\n".join(cells)[:SOURCE_CAP],
        notes=tuple(notes),
        imports=reached_imports(modules, (), imports),
    )


def capture_command(argv: Sequence[str], here: Here) -> Captured:
    """Capture a command; a script it names is sent with the Python files beside it.

    ``python`` means the interpreter of the place of submission, and ``python -m`` of a module in the working
    directory is captured as well. The working directory stays the user's.
    """
    if not argv or not all(isinstance(word, str) for word in argv):
        msg = f"A command is a text or a list of texts, not {given(argv)}."
        raise CaptureError(msg)
    program = program_of(argv, here)
    words = list(program.words)
    captured = Captured(
        kind="command",
        name=Path(program.command[0]).name,
        argv=program.words,
        files={},
        cwd=str(here.cwd),
        source=shlex.join(program.command)[:SOURCE_CAP],
        program=program.path,
        env=program.variables,
        notes=program.notes,
    )
    module = _module_option(words) if is_python(words[0]) else None
    if module is not None and sources.module_path(module[1].split(".")[0], here.cwd) is not None:
        return _with_module(captured, program, module, here)
    place = _script_place(words, here.cwd) if program.script is None else program.script
    if place is None:
        return captured
    script = here.cwd / words[place]
    require(script)
    files = {**sources.tree(script.parent), script.name: sources.read(script)}
    words[place] = f"{{code}}/{script.name}"
    imports = reached_imports(files, [script.name])
    return replace(captured, name=script.stem, argv=tuple(words), files=files, imports=imports)


def _with_module(captured: Captured, program: Program, option: tuple[int, str], here: Here) -> Captured:
    """Return the command with the modules of the working directory, if its Python can leave that directory out."""
    place, module = option
    words, name = captured.argv, module.rpartition(".")[2]
    python = program.path or words[0]
    if python != sys.executable and (minor_version(python) or 0) < SAFE_PATH:
        note = f"{words[0]} reads the module {module} as it is when the job starts, not as it is now."
        return replace(captured, name=name, notes=(*captured.notes, note))
    imports = reached_imports(
        files := sources.tree(here.cwd), (), Imports(frozenset({module, f"{module}.__main__"}))
    )
    argv, env = (*words[:place], "-P", *words[place:]), {**captured.env, "PYTHONPATH": "{code}"}
    return replace(captured, name=name, argv=argv, files=files, env=env, imports=imports)


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
    """Return the index of a command's script; the program text of a shell, which may end like one, is none."""
    if is_python(words[0]):
        first = _first_operand(words)
        if first is None or words[first] == "-c":
            return None
        if words[first] != "-m":
            return first
    for place, word in enumerate(words[1:], 1):
        is_text = any(map(str.isspace, word)) and not is_file(cwd, word)
        if Path(word).suffix in SCRIPT_SUFFIXES and not word.startswith("-") and not is_text:
            return place
    return None


def _code_cells(content: bytes, path: Path) -> list[str]:
    try:
        cells = json.loads(content)["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        msg = f"{path.name} is not a notebook of format 4, such as JupyterLab saves."
        raise CaptureError(msg) from None
    return texts
