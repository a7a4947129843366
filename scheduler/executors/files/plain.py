"""Reading and writing in directories whose contents somebody else may control."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from springtide.scheduler.executors.base import ExecutorError

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LONGEST_PATH = 1024
LONGEST_PART = 255


def relative_parts(name: str) -> tuple[str, ...]:
    """The parts of a path that stays inside its directory; raises `ExecutorError` for any other."""
    parts = PurePosixPath(name).parts
    if (
        not parts
        or name.startswith("/")
        or "\0" in name
        or ".." in parts
        or len(os.fsencode(name)) > LONGEST_PATH
        or any(len(os.fsencode(part)) > LONGEST_PART for part in parts)
    ):
        raise ExecutorError(
            f"{name!r} is not a path inside the directory it belongs to, such as 'models/best.pt'."
        )
    return parts


def open_plain(root: Path, parts: Iterable[str], owner: int | None = None) -> int | None:
    """Open a plain file below ``root`` for reading, following no links; None if there is none.

    Raises `ExecutorError` if something else is there, or if the file is not ``owner``'s.
    """
    *way, last = parts
    shown = "/".join((*way, last))
    try:
        directory = os.open(root, DIRECTORY)
        try:
            for part in way:
                below = os.open(part, DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = below
            file = os.open(last, PLAIN, dir_fd=directory)
        finally:
            os.close(directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise ExecutorError(f"{shown!r} is not a plain file.") from error
        raise ExecutorError(f"{shown!r} cannot be read: {error.strerror}.") from error
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or (owner is not None and found.st_uid != owner):
        os.close(file)
        raise ExecutorError(f"{shown!r} is not a plain file of the job.")
    return file


def write_tree(root: Path, files: Mapping[str, bytes], owner: tuple[int, int] | None) -> None:
    """Make the directory ``root`` with these files in it, all or nothing; nothing if it is there already.

    Until it is complete nobody but this process's account can reach into it, so no link can be slipped in. Scripts
    (``#!``) can be executed. Raises `ExecutorError` for names that do not stay inside or clash.
    """
    if root.exists():
        return
    beside = root.with_name(f"{root.name}.new")
    if beside.exists():
        shutil.rmtree(beside)
    beside.mkdir(mode=0o700)
    for name, content in sorted(files.items()):
        path = beside.joinpath(*relative_parts(name))
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mode = 0o700 if content.startswith(b"#!") else 0o600
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except (FileExistsError, NotADirectoryError) as error:
            raise ExecutorError(f"The file {name!r} clashes with another file of the job.") from error
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(file)
    if owner is not None:
        for place, _, names in os.walk(beside, topdown=False):
            for name in names:
                os.chown(Path(place, name), *owner)
            os.chown(place, *owner)
    beside.rename(root)
    sync(root.parent)


def make_directory(path: Path, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Make a directory of this mode and owner; one that is there stays as it is."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    if owner is not None:
        os.chown(path, *owner)
    path.chmod(mode)


def sync(directory: Path) -> None:
    """Put the entries of a directory on disk."""
    handle = os.open(directory, DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
