"""Capture of a command, script or notebook at the moment of submission, with the project that it is in.

Later edits of code, settings or templates do not change the job. Only data is read in place, when the job runs.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from springtide.scheduler.arguments import Argument
from springtide.scheduler.capture import sources
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.file_kinds import KNOWN, suffix_of
from springtide.scheduler.capture.imports import Imports, imports_of_cells, imports_of_file, reached_imports
from springtide.scheduler.capture.notebook_file import checked
from springtide.scheduler.capture.program import (
    PYTHON,
    SCRIPT_SUFFIXES,
    Here,
    Program,
    find,
    first_line,
    is_file,
    is_python,
    program_of,
    require,
)
from springtide.scheduler.capture.project import Project
from springtide.scheduler.capture.project_walk import capture_project
from springtide.scheduler.capture.search_path import folders_of
from springtide.scheduler.project_tree import PLACE, TreeFile
from springtide.scheduler.wire.environments import SEARCH_PATH
from springtide.scheduler.wording import LONG_GIVEN, given, listed, plural

RUNNER = "springtide.training.run"
SOURCE_CAP = 200_000
LONGEST = 4096
"""Maximum length of a path in a command, in characters."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured program: the parts of a `Submission` that define what runs.

    ``program`` is the absolute path of the program that the first word means at the place of submission, empty
    if there is none. ``source`` is its short description for people, ``arguments`` are those of a function or a
    notebook by name, ``notes`` are remarks for the user, ``sizes``
    the bytes of its largest variables, ``imports`` its imports from outside of ``files`` and ``project``. Without
    a project the job runs in the user's own folder; ``in_place`` are the Python files of a command there, which
    are not sent.
    """

    kind: str
    name: str
    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    cwd: str
    source: str = ""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    program: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    imports: Imports = Imports()  # noqa: RUF009 - frozen
    project: Project | None = None
    in_place: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def packed(self) -> bytes | None:
        """The packed project tree, None without one."""
        return None if self.project is None else self.project.packed


def project_of(here: Here, place: Path, scripts: Sequence[Path] = ()) -> Project | None:
    """Return the project that a folder is in, with the ``scripts`` copied; None for a job in place."""
    return None if here.in_place else capture_project(place, here.home, scripts)


def in_place_note(here: Here) -> str:
    """Return the sentence about a job that runs in place."""
    return f"The job runs in {here.cwd} itself: it reads the files as they are when it runs."


def capture_notebook(path: Path, here: Here) -> Captured:
    """Capture a notebook as it was last saved, with the project that it is in."""
    whole = here.cwd / path
    require(whole)
    saved = sources.read(whole)
    content = checked(saved, path.name)
    cells = _code_cells(content)
    imports = imports_of_cells(cells)
    notes = [f"The job runs {path.name} as it was last saved."]
    if here.notebook is not None and here.notebook.resolve() == whole.resolve():
        notes = [f"The job runs {path.name} as it was last saved: changes made after that are not part of it."]
    python, folder = find(here.interpreter, here) or here.python, whole.parent.resolve()
    project = project_of(here, folder, [whole])
    search = [] if project is None else search_places(project, python)
    if project is None:
        files, name, notes = {path.name: content}, f"{{code}}/{path.name}", [*notes, in_place_note(here)]
        modules = sources.imported_files(imports.all, whole.parent)
    else:
        if content != saved and (place := project.place_of(folder / whole.name)) is not None:
            project = with_file(project, place, content)
        files, name = {}, _placed(str(folder / whole.name), project, folder)
        modules = project.modules(_places(project, folder, search))
        notes += project.notes()
    return Captured(
        kind="notebook",
        name=path.stem,
        argv=(here.interpreter, "-m", RUNNER, "notebook", name),
        program=find(here.interpreter, here),
        files=files,
        cwd=str(folder),
        source="\n\n".join(cells)[:SOURCE_CAP],
        env={} if project is None else search_path_variable(project, here, search),
        notes=tuple(notes),
        imports=_elsewhere(reached_imports(modules, (), imports), folder),
        project=project,
    )


def capture_command(argv: Sequence[str], here: Here) -> Captured:
    """Capture a command with the project that the working directory is in, and with its script.

    ``python`` means the interpreter of the place of submission. The job runs at the same place of its own copy of
    the project; absolute paths of copied files, and paths out of the project to copies, become those of copies.
    """
    if not argv:
        msg = "The command is empty; expected the words of one, such as python train.py."
        raise CaptureError(msg)
    if not all(isinstance(word, str) for word in argv):
        msg = f"A command is a text or a list of texts, not {given(argv)}."
        raise CaptureError(msg)
    if odd := next((word for word in argv if not _is_text(word)), None):
        msg = (
            f"{given(odd, LONG_GIVEN)} is no UTF-8, as all words of a command have to be. "
            "If it names a file, rename the file."
        )
        raise CaptureError(msg)
    program = program_of(argv, here)
    words = list(program.words)
    option = _module_option(words) if is_python(words[0]) else None
    module = option
    if module is not None and sources.module_path(module[1].split(".")[0], here.cwd) is None:
        module = None
    place = program.script if module is None else None
    if place is None and module is None:
        place = _script_place(words, here.cwd)
    script = None if place is None else here.cwd / words[place]
    if script is not None:
        require(script)
    captured = Captured(
        kind="command",
        name=script.stem if script else option[1].rpartition(".")[2] if option else Path(program.command[0]).name,
        argv=program.words,
        files={},
        cwd=str(here.cwd),
        source=shlex.join(program.command)[:SOURCE_CAP],
        program=program.path,
        env=program.variables,
        notes=program.notes,
    )
    first = Imports(frozenset({option[1], f"{option[1]}.__main__"})) if option else Imports()
    scripts = [path for path in (script, _script_run(program)) if path is not None]
    project = project_of(here, here.cwd, [path for path in scripts if not _is_searched(path, here)])
    folder = here.cwd if script is None else _origin(script).parent
    if project is None:
        modules = _modules_in_place(script, first, here)
        captured = replace(captured, notes=(*program.notes, in_place_note(here)), in_place=modules)
    else:
        search = search_places(project, _python_of(program.path or words[0], here))
        modules = project.modules(_places(project, folder, search))
        captured = _in_project(captured, project, here, search)
    reached = reached_imports(modules, [_origin(script).name] if script else [], first)
    return replace(captured, imports=_elsewhere(reached, folder))


def _script_run(program: Program) -> Path | None:
    """Return the program of a command if it is named by its path and is a script; else None."""
    path = Path(program.path)
    return path if "/" in program.command[0] and not is_python(program.path) and first_line(path) else None


def _is_searched(script: Path, here: Here) -> bool:
    """Return whether a script is in a folder in which programs are looked up: it is an installed one."""
    folders = here.variables.get("PATH", "").split(os.pathsep)
    return str(script.parent) in folders and not script.parent.is_relative_to(here.cwd)


def _origin(script: Path) -> Path:
    """Return the file whose folder Python searches for the modules of a script: that at the end of its links."""
    return script.resolve() if script.is_symlink() else script


def _modules_in_place(script: Path | None, first: Imports, here: Here) -> dict[str, bytes]:
    """Return the Python files of a command that runs in place: its script and what it imports from its folder."""
    if script is None:
        return sources.imported_files(first.all, here.cwd)
    content = sources.read(script)
    imported = imports_of_file(content).all if script.suffix == ".py" else ()
    return {**sources.imported_files(imported, script.parent), script.name: content}


def _elsewhere(imports: Imports, folder: Path) -> Imports:
    """Return the imports that are not in the folder of the program, whose uncopied modules are read in place."""
    return imports.without({top for top in imports.tops if top and _has_module(folder, top)})


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _has_module(folder: Path, top: str) -> bool:
    return (folder / f"{top}.py").is_file() or any((folder / top).glob("*.py"))


def _in_project(captured: Captured, project: Project, here: Here, search: Sequence[str]) -> Captured:
    """Return the command with the places of its project in its words, and the program of the copy if it is one.

    The word of a program that is not there stays as it was typed, for messages.
    """
    words, variables = captured.argv, dict(captured.env)
    program = captured.program
    typed = words[:1] if here.searches and not program else ()
    if program and (place := project.place_of(Path(program))) is not None and project.copies(place):
        program = _at(place)
    env = {**variables, **search_path_variable(project, here, search, variables.get(SEARCH_PATH, ""))}
    placed = tuple(_placed(word, project, here.cwd) for word in words[len(typed) :])
    argv = (*typed, *placed)
    return replace(
        captured,
        argv=argv,
        program=program,
        env=env,
        notes=(
            *captured.notes,
            *project.notes(),
            *_live_notes(argv, project),
            *outside_notes(argv[1:], project, here.cwd),
        ),
        project=project,
    )


def _python_of(program: str, here: Here) -> str:
    """Return the interpreter of a program that is one, else that of the place of submission."""
    return program if is_python(program) else find(PYTHON, here) or here.python


def search_path_variable(project: Project, here: Here, search: Sequence[str], own: str = "") -> dict[str, str]:
    """Return PYTHONPATH: the job's ``own``, then the places of the project that the interpreter searches."""
    cwd = project.place_of(here.cwd)
    found = [_at(place) for place in search if place != cwd]
    items = [*([placed_path(own, project)] if own else []), *found]
    return {SEARCH_PATH: ":".join(items)} if items else {}


def placed_path(value: str, project: Project) -> str:
    """Return a value of PYTHONPATH with the copies of folders in place of those of the project."""
    return ":".join(_placed(item, project, project.root) for item in value.split(":"))


def _places(project: Project, folder: Path, search: Sequence[str]) -> list[str]:
    """Return the places of the project that a program in a folder imports from, and its root."""
    place = project.place_of(folder)
    return [*([place] if place else []), *search, "."]


def search_places(project: Project, python: str) -> list[str]:
    """Return the places of the project in which an interpreter looks for modules."""
    places = (project.place_of(Path(folder)) for folder in folders_of(python) if Path(folder).is_absolute())
    return list(dict.fromkeys(place for place in places if place is not None and project.copies(place)))


def _at(place: str) -> str:
    return PLACE if place == "." else f"{PLACE}/{place}"


def _placed(word: str, project: Project, cwd: Path) -> str:
    """Return a word of a command with the path of the copy, if it names a copied file by its absolute path.

    A relative path stays as it is typed, unless it leads out of the project to a file copied with a script.
    """
    head, value = _option_value(word)
    relative = not value.startswith("/")
    if relative and not _leads_outside(value, project, cwd):
        return word
    place = _place_of_word(value, project, cwd)
    return word if place is None or not (relative or project.copies(place)) else f"{head}{_at(place)}"


def _option_value(word: str) -> tuple[str, str]:
    option, equals, value = word.partition("=")
    return (f"{option}=", value) if equals and option.startswith("-") else ("", word)


def _place_of_word(value: str, project: Project, cwd: Path) -> str | None:
    if not value or len(value) > LONGEST or not value.isprintable():
        return None
    return project.place_of(cwd / value)


def _live_notes(words: Sequence[str], project: Project) -> list[str]:
    """Return the sentence about absolute paths that have no copy: into the project, and to code and settings."""
    values = [_option_value(word)[1] for word in words[1:]]
    live = [
        value
        for value in values
        if value.startswith("/")
        and (
            _place_of_word(value, project, project.root) is not None
            or (suffix_of(value) in KNOWN and is_file(project.root, value))
        )
    ]
    return [f"Read in place by its absolute path: {listed(live)}."] if live else []


def outside_notes(values: Iterable[object], project: Project, cwd: Path) -> list[str]:
    """Return the sentence about relative paths that exist outside of the project, where the job finds nothing.

    ``values`` are words of a command or arguments, of which texts may be paths.
    """
    words = [value for value in values if isinstance(value, str)]
    paths = dict.fromkeys(path for word in words for path in (word, _assigned(word)))
    outside = [path for path in paths if _leads_outside(path, project, cwd)]
    if not outside:
        return []
    number = len(outside)
    verb, them, paths_of = (
        plural(number, "lies", "lie"),
        plural(number, "it", "them"),
        plural(number, "path", "paths"),
    )
    whole = [str((cwd / path).resolve()) for path in outside]
    note = (
        f"{listed(outside)} {verb} outside of the project: the job, which runs in a copy of it, does not find "
        f"{them} there. Give the absolute {paths_of}: {listed(whole)}."
    )
    return [note]


def _assigned(word: str) -> str:
    """Return the part after the first ``=`` of a word such as ``--data=x`` or ``data=x``, else the word."""
    return word.partition("=")[2] or word


def _leads_outside(path: str, project: Project, cwd: Path) -> bool:
    """Return whether a text is the relative path of a file or folder that is there, outside of the project."""
    if len(path) > LONGEST or not path.isprintable() or os.path.normpath(path).partition("/")[0] != "..":
        return False
    return os.path.exists(cwd / path) and not project.is_inside(cwd / path)  # noqa: PTH110 - any text


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


def _code_cells(content: bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(content)["cells"] if cell["cell_type"] == "code"]


def with_file(project: Project, place: str, content: bytes) -> Project:
    """Return a project with another content of a file, which is no link then."""
    links = {path: target for path, target in project.links.items() if path != place}
    return replace(project, files={**project.files, place: TreeFile(content)}, links=links)
