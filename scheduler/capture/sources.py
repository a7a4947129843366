"""The user's own source files, read at the moment of submission."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.imports import imports_of_file
from springtide.scheduler.wording import size

CODE = frozenset({".py"})
OF_JUPYTER = re.compile(r"(jpserver|nbserver|kernel)-.*\.json")
"""Names of files in Jupyter's runtime directory, which have the keys of running servers and kernels."""
TRIES = 40
"""Maximum number of readings of a file that changes meanwhile."""
RETRY_AFTER = 0.02
"""Time between two of them, in seconds."""
SETTLES_NS, EMPTY_SETTLES_NS = 50_000_000, 500_000_000
"""Age from which a file counts as written, in nanoseconds: programs empty a file, then write it in pieces."""
SKIPPED = frozenset({"__pycache__", "site-packages", "dist-packages", "node_modules"})


def read(path: Path) -> bytes:
    """Return the content of a file, as it was at one moment.

    Raises `CaptureError` naming the file if it cannot be read, or is being rewritten all the time.
    """
    try:
        return settled(str(path))
    except OSError as error:
        reason = error.strerror or str(error)
        msg = f"{path} cannot be read: {reason}."
        raise CaptureError(msg) from error


def settled(path: str) -> bytes:
    """Return the content of a file, which is read again if it changed meanwhile or was written just now.

    Of a file that only grows, such as a log, it is the last reading. Raises `OSError`, and `CaptureError` for a
    file that is rewritten again and again during `TRIES` readings.
    """
    content, only_grows = b"", True
    for left in reversed(range(TRIES)):
        earlier = content
        with open(path, "rb") as file:  # noqa: PTH123 - thousands of files
            before = _version(os.fstat(file.fileno()))
            content = file.read()
        about = os.stat(path)  # noqa: PTH116 - thousands of files
        is_new = 0 <= time.time_ns() - about.st_mtime_ns < (SETTLES_NS if content else EMPTY_SETTLES_NS)
        if _version(about) == before and not (is_new and left):
            return content
        only_grows = only_grows and content.startswith(earlier)
        time.sleep(RETRY_AFTER)
    if content and only_grows:
        return content
    msg = f"{path} changes while it is read. Send the job when the program that writes the file is done."
    raise CaptureError(msg)


def _version(about: os.stat_result) -> tuple[int, int, int, int]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def local_modules(workdir: Path) -> Iterator[ModuleType]:
    """Return the modules that this process has imported from ``workdir``, which the user may change."""
    is_own = _own_files(workdir)
    for name, module in sys.modules.copy().items():
        file = getattr(module, "__file__", None)
        if name == "__main__" or name.split(".")[0] == "springtide" or not isinstance(file, str):
            continue
        if isinstance(module, ModuleType) and is_own(file):
            yield module


def module_files(modules: Iterable[ModuleType]) -> dict[str, bytes]:
    """Return the modules' source files by the path under which the same ``import`` finds them."""
    files: dict[str, bytes] = {}
    for module in modules:
        path = Path(str(module.__file__))
        parts = module.__name__.split(".")
        expected = Path(*parts, "__init__.py") if path.name == "__init__.py" else Path(*parts).with_suffix(".py")
        if path.parts[-len(expected.parts) :] == expected.parts and path.is_file():
            files[expected.as_posix()] = read(path)
    return files


def imported_files(names: Iterable[str], root: Path) -> dict[str, bytes]:
    """Return the files below ``root`` that importing ``names`` reads, and all that those import in turn."""
    files: dict[str, bytes] = {}
    pending = list(names)
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        pending.append(name.rpartition(".")[0])
        path = module_path(name, root)
        if path is None:
            continue
        content = read(path)
        files[path.relative_to(root).as_posix()] = content
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        pending.extend(imports_of_file(content, package).all)
    return files


def module_path(name: str, root: Path) -> Path | None:
    """Return the path of the module ``name`` below ``root``, None if there is none."""
    base = root.joinpath(*name.split("."))
    for path in (base / "__init__.py", base.with_name(base.name + ".py")):
        if path.is_file():
            return path
    return None


def listing(sizes: Mapping[str, int], most: int = 5) -> str:
    """Return the largest things with their sizes in bytes, for a message."""
    largest = sorted(sizes.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {size(length)}" for name, length in largest[:most])
    return shown if len(largest) <= most else f"{shown} and {len(largest) - most} smaller"


def _own_files(workdir: Path) -> Callable[[str], bool]:
    """Return a test for the user's own files below ``workdir``.

    Installed modules, most of a notebook's imports, are recognised by the spelling of their paths: disk access for
    each takes long on a busy or remote disk.
    """
    root = workdir.resolve()
    places = [Path(sysconfig.get_path(key)) for key in ("stdlib", "purelib", "platlib")]
    installed = [place.resolve() for place in places]
    spelled = tuple(f"{place}{os.sep}" for place in {*places, *installed})

    def is_own(file: str) -> bool:
        if file.startswith(spelled) or Path(file).suffix not in CODE:
            return False
        path = Path(file).resolve()
        if not path.is_relative_to(root) or any(path.is_relative_to(place) for place in installed):
            return False
        return not any(part.startswith(".") or part in SKIPPED for part in path.relative_to(root).parts[:-1])

    return is_own
