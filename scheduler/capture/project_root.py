"""The root of a project: the folder that a mark, an ignore file or its owner makes one."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from springtide.scheduler.capture.ignore import IGNORE_FILE, leaves_out_all

MARKS = (".git", "pyproject.toml")
"""Names that mark the root of a project, as does a `.springtideignore`."""
LINKED_FOLDERS = frozenset({"node_modules", "site-packages", "dist-packages"})
"""Names of folders of installed packages, which are read in place."""
OF_ENVIRONMENTS = frozenset({"bin", "lib", "lib64", "libexec", "share"})
"""Names of the folders of an environment that have its installed packages."""


def find_root(place: Path, home: Path) -> Path | None:
    """Return the root of the project that a folder is in, None if nothing marks one.

    It is never above the home directory or a folder that all share, such as ``/tmp``; these and the root of the
    file system need an ignore file to be one. An ignore file that leaves out all of its folder marks none.
    """
    for folder in (place, *place.parents):
        whole = folder in {home, Path(folder.anchor)} or _is_shared(folder)
        if not whole and any(is_there(folder / mark) for mark in MARKS):
            return folder
        if has_file(folder, IGNORE_FILE) and not leaves_out_all(folder):
            return folder
        if whole:
            return None
    return None


def is_wide(folder: Path, home: Path) -> bool:
    """Return whether a folder that nothing marks has more than a project: a home, what all share, or another's."""
    return folder in {home, Path(folder.anchor)} or _is_shared(folder) or _is_anothers(folder, home)


def _is_shared(folder: Path) -> bool:
    """Return whether all may write in a folder, and each deletes only their own files."""
    with suppress(OSError):
        mode = folder.stat().st_mode
        return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)
    return False


def _is_anothers(folder: Path, home: Path) -> bool:
    """Return whether a folder belongs to neither the account of this process nor that of its home directory."""
    owners = {os.geteuid()}
    with suppress(OSError):
        owners.add(home.stat().st_uid)
    with suppress(OSError):
        return folder.stat().st_uid not in owners
    return False


def marked_or(folder: Path, home: Path) -> Path:
    """Return the root of the project that a folder is in, that folder if nothing marks one."""
    return find_root(folder, home) or folder


def is_installed(script: Path) -> bool:
    """Return whether a script is in an environment or among installed packages: it is no part of a project."""
    if set(script.parts) & LINKED_FOLDERS:
        return True
    return any(
        script.relative_to(folder).parts[0] in OF_ENVIRONMENTS and is_environment(folder)
        for folder in script.parents
    )


def is_shallow(root: Path, home: Path) -> bool:
    """Return whether only the files of a folder itself, and its packages, belong to a project."""
    return find_root(root, home) is None and is_wide(root, home)


def is_environment(place: Path) -> bool:
    """Return whether a folder is an environment of Python or of conda."""
    return is_there(place / "pyvenv.cfg") or is_there(place / "conda-meta")


def is_there(path: Path) -> bool:
    """Return whether a file or folder can be found: what lies behind a closed folder cannot."""
    with suppress(OSError):
        return path.exists()
    return False


def has_file(folder: Path, name: str) -> bool:
    """Return whether a folder has a file of this name: a closed folder has none."""
    with suppress(OSError):
        return (folder / name).is_file()
    return False
