"""Reading and writing in directories whose contents the job may control."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.wording import LONG_GIVEN, given

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LONGEST_PATH = 1024
LONGEST_PART = 255


def relative_parts(name: str) -> tuple[str, ...]:
    """Return the parts of a path inside its directory. Raises `ExecutorError` for any other path."""
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
            f"{given(name, LONG_GIVEN)} is not a path inside the directory it belongs to, such as "
            "“models/best.pt”."
        )
    return parts


def open_plain(root: Path, parts: Iterable[str], owner: int | None = None) -> int | None:
    """Open a plain file below ``root`` for reading, following no links; return None if there is none.

    Raises `ExecutorError` if it is not a plain file, or if the file is not owned by ``owner``.
    """
    *parents, last = parts
    shown = "/".join((*parents, last))
    try:
        directory = os.open(root, DIRECTORY)
        try:
            for part in parents:
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
            raise ExecutorError(f"{given(shown, LONG_GIVEN)} is not a plain file.") from error
        raise ExecutorError(f"{given(shown, LONG_GIVEN)} cannot be read: {error.strerror}.") from error
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or (owner is not None and found.st_uid != owner):
        os.close(file)
        raise ExecutorError(f"{given(shown, LONG_GIVEN)} is not a plain file of the job.")
    return file


def write_tree(
    root: Path, files: Mapping[str, bytes], owner: tuple[int, int] | None, *, readable: bool = False
) -> None:
    """Create the directory ``root`` with these files, atomically; do nothing if it exists.

    Until it is complete only this process's account has access to it, so that nothing can be replaced by a link;
    with ``readable`` all accounts can read it then. Scripts (``#!``) are executable. Raises `ExecutorError` for
    names that leave the directory or clash.
    """
    if root.exists():
        return
    temporary = root.with_name(f"{root.name}.new")
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir(mode=0o700)
    for name, content in sorted(files.items()):
        path = temporary.joinpath(*relative_parts(name))
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mode = 0o700 if content.startswith(b"#!") else 0o600
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except (FileExistsError, NotADirectoryError) as error:
            raise ExecutorError(
                f"The file {given(name, LONG_GIVEN)} clashes with another file of the job."
            ) from error
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(file)
    if owner is not None:
        for folder, _, names in os.walk(temporary, topdown=False):
            for name in names:
                os.chown(Path(folder, name), *owner)
            os.chown(folder, *owner)
    if readable:
        for path in (temporary, *temporary.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    temporary.rename(root)
    sync(root.parent)


def replace_file(directory: Path, name: str, content: bytes, owner: tuple[int, int] | None) -> None:
    """Replace a plain file of a job-writable directory, atomically; links in it are not followed.

    Raises `ExecutorError` if a directory of that name is in the way.
    """
    handle = os.open(directory, DIRECTORY)
    temporary = f".{name}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=handle)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(temporary, flags, 0o600, dir_fd=handle)
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            if owner is not None:
                os.fchown(file, *owner)
        os.rename(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
    except (IsADirectoryError, FileExistsError, PermissionError) as error:
        raise ExecutorError(
            f"Something is in the place of the job's file {given(name, LONG_GIVEN)}, and cannot be replaced."
        ) from error
    finally:
        os.close(handle)


def make_directory(
    path: Path | str, mode: int, owner: tuple[int, int] | None = None, *, within: int | None = None
) -> None:
    """Create a directory with this mode and owner; do nothing if it exists.

    ``path`` is relative to the directory with the descriptor ``within``, if that is given.
    """
    try:
        os.mkdir(path, 0o700, dir_fd=within)
    except FileExistsError:
        return
    if owner is not None:
        os.chown(path, *owner, dir_fd=within)
    if mode != 0o700:
        os.chmod(path, mode, dir_fd=within)


def sync(directory: Path) -> None:
    """Flush the entries of a directory to disk."""
    handle = os.open(directory, DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
