"""Capture of a command, script or notebook at the moment of submission, with the project that it is in.

Later edits of code, settings or templates do not change the job. Only data is read in place, when the job runs.
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
from springtide.scheduler.capture.project import LINKED_FOLDERS, Project, capture_project, find_root
from springtide.scheduler.capture.search_path import folders_of
from springtide.scheduler.project_tree import PLACE
from springtide.scheduler.wording import given, listed

RUNNER = "springtide.training.run"
SOURCE_CAP = 200_000
SCRIPT_SUFFIXES = frozenset({".py", ".sh"})
SHELL = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})


LONGEST = 4096
"""Maximum length of a path in a command, in characters."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured program: the parts of a `Submission` that define what runs.

    ``source`` is its short description for people, ``notes`` are remarks for the user, ``sizes`` the bytes of its
    largest variables, ``imports`` its imports from outside of ``files`` and ``project``. Without a project the job
    runs in the user's own folder.
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
    project: Project | None = None

    @property
    def packed(self) -> bytes | None:
        """The packed project tree, None without one."""
        return None if self.project is None else self.project.packed


@dataclass(frozen=True, slots=True)
class Here:
    """The place of the submission: the working directory, its interpreter, the open notebook, the home directory.

    With ``in_place`` nothing of the project is copied.
    """

    cwd: Path
    python: str = sys.executable
    notebook: Path | None = None
    in_place: bool = False
    home: Path = field(default_factory=Path.home)

    def project_of(self, place: Path, always: Sequence[Path] = ()) -> Project | None:
        """Return the project that a folder is in, with the files ``always`` copied; None for a job in place."""
        return None if self.in_place else capture_project(place, self.home, always)

    def in_place_note(self) -> str:
        """Return the sentence about a job that runs in place."""
        return f"The job runs in {self.cwd} itself: it reads the files as they are when it runs."


def capture_words(words: Sequence[str], here: Here) -> Captured:
    """Capture the words of a command line: a notebook named alone, or a command."""
    if len(words) == 1 and str(words[0]).endswith(".ipynb"):
        return capture_notebook(Path(words[0]), here)
    return capture_command(words, here)


def capture_notebook(path: Path, here: Here) -> Captured:
    """Capture a notebook as it was last saved, with the project that it is in."""
    whole = here.cwd / path
    _require(whole)
    content = sources.read(whole)
    cells = _code_cells(content, path)
    imports = imports_of_cells(cells)
    notes = [f"Sent {path.name} as it was last saved."]
    if here.notebook is not None and here.notebook.resolve() == whole.resolve():
        notes = [f"Sent {path.name} as it was last saved: changes made after that are not part of the job."]
    project = here.project_of(whole.resolve().parent, [whole])
    if project is None:
        files, name, notes = {path.name: content}, f"{{code}}/{path.name}", [*notes, here.in_place_note()]
        modules = sources.imported_files(imports.all, whole.parent)
    else:
        files, name = {}, _placed(str(whole.resolve()), project, whole.resolve().parent)
        modules = project.modules(_places(project, whole.parent, here.python))
    return Captured(
        kind="notebook",
        name=path.stem,
        argv=(here.python, "-m", RUNNER, "notebook", name),
        files=files,
        cwd=str(whole.parent.resolve()),
        source="\n\n".join(cells)[:SOURCE_CAP],
        env={} if project is None else search_path_variable(project, here),
        notes=(*notes, *(project.notes() if project else ())),
        imports=reached_imports(modules, (), imports),
        project=project,
    )


def capture_command(argv: Sequence[str], here: Here) -> Captured:
    """Capture a command with the project that its script or the working directory is in.

    ``python`` means the notebook's own interpreter. The job runs at the same place of its own copy of the project;
    absolute paths of copied files become paths of the copy.
    """
    if not argv or not all(isinstance(word, str) for word in argv):
        msg = f"A command is a text or a list of texts, not {given(argv)}."
        raise CaptureError(msg)
    words = [_interpreter(argv[0], here), *argv[1:]]
    module = _module_option(words) if is_python(words[0]) else None
    own = module is not None and sources.module_path(module[1].split(".")[0], here.cwd) is not None
    place = None if own else _script_place(words, here.cwd)
    script = None if place is None else here.cwd / words[place]
    if script is not None:
        _require(script)
    if place == 0 and script is not None:
        words[:1] = [word or words[0] for word in _launcher(script, here)]
    project = here.project_of(_base(here, script), [script] if script is not None else [])
    first = Imports(frozenset({module[1], f"{module[1]}.__main__"})) if own and module else Imports()
    name = module[1].rpartition(".")[2] if own and module else script.stem if script else Path(argv[0]).name
    if project is None:
        modules = {} if script is None else {script.name: sources.read(script)}
        notes: tuple[str, ...] = (here.in_place_note(),)
    else:
        modules = project.modules(_places(project, here.cwd if script is None else script.parent, words[0]))
        notes = (*project.notes(), *_live_notes(words, project))
        words = [words[0] if is_python(words[0]) else _placed(words[0], project, here.cwd)] + [
            _placed(word, project, here.cwd) for word in words[1:]
        ]
    return Captured(
        kind="command",
        name=name,
        argv=tuple(words),
        files={},
        cwd=str(here.cwd),
        source=shlex.join(argv)[:SOURCE_CAP],
        env={} if project is None else search_path_variable(project, here, words[0]),
        notes=notes,
        imports=reached_imports(modules, [script.name] if script else [], first),
        project=project,
    )


def search_path_variable(project: Project, here: Here, python: str | None = None) -> dict[str, str]:
    """Return PYTHONPATH with the places of the project that the interpreter imports from."""
    cwd = project.place_of(here.cwd)
    found = [place for place in _search_places(project, python or here.python) if place != cwd]
    return {"PYTHONPATH": ":".join(map(_at, found))} if found else {}


def placed_path(value: str, project: Project) -> str:
    """Return a value of PYTHONPATH with the copies of folders in place of those of the project."""
    return ":".join(_placed(item, project, project.root) for item in value.split(":"))


def _base(here: Here, script: Path | None) -> Path:
    """Return the folder whose project is captured: the working directory, or that of a script outside of it."""
    cwd, home = here.cwd.resolve(), here.home.resolve()
    folder = cwd if script is None else script.resolve().parent
    if set(folder.parts) & LINKED_FOLDERS:
        return cwd
    root = find_root(cwd, home)
    wide = root is None and cwd in {home, Path(cwd.anchor)} and folder != cwd
    return folder if wide or not folder.is_relative_to(root or cwd) else cwd


def _places(project: Project, folder: Path, python: str) -> list[str]:
    """Return the places of the project that a program in a folder imports from, and its root."""
    place = project.place_of(folder)
    return [*([place] if place else []), *_search_places(project, python), "."]


def _search_places(project: Project, python: str) -> list[str]:
    places = (project.place_of(Path(folder)) for folder in folders_of(python) if Path(folder).is_absolute())
    return list(dict.fromkeys(place for place in places if place is not None and project.copies(place)))


def _at(place: str) -> str:
    return PLACE if place == "." else f"{PLACE}/{place}"


def _placed(word: str, project: Project, cwd: Path) -> str:
    """Return a word of a command with the path of the copy, if it names a copied file by its absolute path.

    In a working directory outside of the project, relative paths lead to copies as well.
    """
    head, value = _option_value(word)
    if not value.startswith("/") and project.place_of(cwd) is not None:
        return word
    place = _place_of_word(value, project, cwd)
    return word if place is None or not project.copies(place) else f"{head}{_at(place)}"


def _option_value(word: str) -> tuple[str, str]:
    option, equals, value = word.partition("=")
    return (f"{option}=", value) if equals and option.startswith("-") else ("", word)


def _place_of_word(value: str, project: Project, cwd: Path) -> str | None:
    if not value or len(value) > LONGEST or not value.isprintable():
        return None
    return project.place_of(cwd / value)


def _live_notes(words: Sequence[str], project: Project) -> list[str]:
    """Return the sentence about absolute paths into the project that have no copy."""
    values = [_option_value(word)[1] for word in words[1:]]
    live = [
        value
        for value in values
        if value.startswith("/")
        and (place := _place_of_word(value, project, project.root)) is not None
        and not project.copies(place)
    ]
    return [f"Read in place by its absolute path: {listed(live)}."] if live else []


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
