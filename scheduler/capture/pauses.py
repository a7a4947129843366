"""What a pause would cost a program, read from its text before it is sent: nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from posixpath import normpath
from typing import Final

from springtide.scheduler.capture.command import Captured
from springtide.scheduler.capture.file_use import dotted, file_use
from springtide.scheduler.capture.imports import MAGIC, imports_of_tree
from springtide.scheduler.project_tree import PLACE
from springtide.scheduler.wire import Submission
from springtide.scheduler.wording import LONG_GIVEN, given, listed

LIBRARY: Final = "springtide.training"
ONLY_THE_JOB: Final = frozenset({LIBRARY, f"{LIBRARY}.current_job"})
RESUMING_METHODS: Final = frozenset({"restore", "save", "epochs", "should_pause", "exit_for_pause"})
"""Methods of the job in the library by which programs resume."""
RESUMES: Final = {
    "ckpt_path": "Lightning's ckpt_path",
    "resume_from_checkpoint": "Transformers' resume_from_checkpoint",
}
"""Keywords by which a framework resumes, with their names in words."""
RESUMING_NAMES: Final = {
    "get_last_checkpoint": "Transformers' get_last_checkpoint",
    "BackupAndRestore": "Keras' BackupAndRestore",
    "load_state": "Accelerate's load_state",
}
LOADS: Final = frozenset(
    {"torch.load", "dcp.load", "joblib.load", "pickle.load", "load_weights", "load_checkpoint"}
)
SAVES: Final = frozenset(
    {
        "torch.save",
        "dcp.save",
        "joblib.dump",
        "save_checkpoint",
        "save_state",
        "ModelCheckpoint",
        "save_pretrained",
    }
)
ROOTS: Final = ("", "src/")
"""Folders of a project in which modules lie, with a slash at the end."""
FLAG: Final = re.compile(
    r"--(resume|restore)[\w-]*|--(load|from)[-_](checkpoint|ckpt)|--(checkpoint|ckpt)[-_](path|file)"
)
"""Options of a command by which programs usually resume."""


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of checkpoints in a program: how it ``resumes``, what it ``saves`` by, its ``flags`` to resume.

    ``handles_sigterm``: it has a handler of its own for the signal that asks it to stop.
    """

    resumes: tuple[str, ...] = ()
    saves: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    handles_sigterm: bool = False


def signs_of(text: str) -> Signs:
    """Return the signs of checkpoints in a program's text; none if it is not Python."""
    tree = _tree_of(text)
    if tree is None:
        return Signs()
    resumes, saves, loads, flags, sigterm = set[str](), set[str](), set[str](), set[str](), False
    library = {name for name in imports_of_tree(tree).all if name.startswith(LIBRARY)}
    if library and not (library <= ONLY_THE_JOB and _only_reports(tree)):
        resumes.add(LIBRARY)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=func, keywords=keywords):
                called = dotted(func)
                last = called.rpartition(".")[2]
                two = ".".join(called.split(".")[-2:])
                resumes.update(RESUMES[each.arg] for each in keywords if each.arg in RESUMES)
                resumes.update(RESUMING_NAMES[name] for name in (last,) if name in RESUMING_NAMES)
                loads.update({two, last} & LOADS)
                saves.update({two, last} & SAVES)
                sigterm = sigterm or (two == "signal.signal" and "SIGTERM" in ast.dump(node))
            case ast.Constant(value=str(value)) if FLAG.fullmatch(value):
                flags.add(value)
    if saves and loads:
        resumes.add(f"{listed(sorted(loads))} and {listed(sorted(saves))}")
    return Signs(tuple(sorted(resumes)), tuple(sorted(saves)), tuple(sorted(flags)), sigterm)


def _only_reports(tree: ast.AST) -> bool:
    """Return whether a program calls methods of its job that report, and none by which it resumes."""
    methods = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    return "report" in methods and not methods & RESUMING_METHODS


def _tree_of(text: str) -> ast.AST | None:
    """Return the tree of a program's text, None if it is not Python."""
    try:
        return ast.parse(MAGIC.sub(r"\1pass", text))
    except (SyntaxError, ValueError, RecursionError):
        return None


def pause_words(request: Submission, captured: Captured) -> str:
    """Return what a pause would cost a job, as sentences; honest about what cannot be known from the text."""
    if not request.gpus or not request.is_preemptible:
        return "It is not paused for others."
    if request.resume is not None:
        return f"If it has saved something, it runs again with {given(request.resume, LONG_GIVEN)}."
    texts = dict(_texts(request, captured))
    if not texts:
        program = request.argv[0].rpartition("/")[2]
        name = next((word for word in request.argv[1:2] if word.endswith(".sh")), program)
        return (
            f"Only Python is read for signs of checkpoints, so whether {name} resumes after a pause is not known. "
            "If it does not, a pause starts it again from the beginning."
        )
    name = next(iter(texts))
    found = [signs_of(text) for text in texts.values()]
    files = file_use([tree for text in texts.values() if (tree := _tree_of(text)) is not None])
    resumes = sorted({sign for each in found for sign in each.resumes})
    if files.keeps:
        resumes.append(f"it both reads and writes {listed([given(path, LONG_GIVEN) for path in files.keeps])}")
    flags = sorted({flag for each in found for flag in each.flags})
    if flags and set(resumes) <= set(RESUMES.values()) and not any(flag in request.argv for flag in flags):
        return (
            f"{name} knows {listed(flags)}: name its arguments in the option resume, such as "
            f"“{flags[0]} {{checkpoint}}”, so that it gets them after a pause."
        )
    if resumes:
        return f"Signs that {name} resumes after a pause: {listed(resumes)}. Whether it does is not checked."
    if files.unknown:
        return (
            f"{name} reads and writes files, and not all of their names are in its text, so whether it resumes "
            "after a pause is not known. If it does not, a pause starts it again from the beginning."
        )
    saves = sorted({name for each in found for name in each.saves})
    if saves:
        return (
            f"{name} saves by {listed(saves)}, with no sign that it loads that again: a pause may lose its work."
        )
    if any(each.handles_sigterm for each in found):
        return (
            f"{name} has a handler of its own for SIGTERM, and no other sign of checkpoints: unless that saves, a "
            "pause would start it again from the beginning."
        )
    return f"No sign of checkpoints found in {name}: a pause would start it again from the beginning."


def _texts(request: Submission, captured: Captured) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the program's own Python files, the one that it starts with first."""
    if request.kind != "command":
        yield captured.name or request.kind, captured.source
        return
    files, project = {**captured.files, **captured.in_place}, captured.project
    first = [path for path in files if any(word == path or word.endswith(f"/{path}") for word in request.argv)]
    folder = ""
    if project is not None:
        place = project.place_of(Path(captured.cwd)) or "."
        folder = "" if place == "." else f"{place}/"
        files |= project.modules(["."])
        first += [project.read_at(_in_tree(word, folder)) for word in request.argv]
    texts = {path: content for path, content in files.items() if path.endswith(".py")}
    for path in _reached(texts, first, request.argv, folder):
        name = path if project is None else project.named(path)
        yield name, texts[path].decode(errors="replace")


def _in_tree(word: str, folder: str) -> str:
    """Return the path in the project that a word of a command means, if it is one."""
    return normpath(word.removeprefix(f"{PLACE}/") if word.startswith(f"{PLACE}/") else f"{folder}{word}")


def _reached(files: Mapping[str, bytes], first: Sequence[str], argv: Sequence[str], folder: str) -> list[str]:
    """Return the paths of the program's files: the ``first``, and the modules that they import in turn.

    ``folder`` is the working directory in the project, with a slash at its end, empty for the root.
    """
    roots = tuple(dict.fromkeys((folder, *ROOTS)))
    pending = [path for path in first if path in files]
    pending += [path for before, word in pairwise(argv) if before == "-m" for path in _modules(word, roots, files)]
    folders = [*roots, *(f"{path.rpartition('/')[0]}/" for path in pending if "/" in path)]
    seen: list[str] = []
    while pending:
        path = pending.pop(0)
        if path in seen:
            continue
        seen.append(path)
        try:
            names = imports_of_tree(ast.parse(files[path]), ".".join(path.split("/")[:-1])).all
        except (SyntaxError, ValueError, RecursionError):
            continue
        for name in sorted(names):
            pending += _modules(name, folders, files)
    return seen


def _modules(name: str, folders: Sequence[str], files: Mapping[str, bytes]) -> list[str]:
    """Return the files of a module in these folders."""
    base = name.replace(".", "/")
    paths = (f"{folder}{base}{end}" for folder in folders for end in (".py", "/__init__.py", "/__main__.py"))
    return [path for path in paths if path in files]
