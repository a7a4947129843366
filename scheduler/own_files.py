"""Directories and files of a state directory: made and given their modes without following a link, locked, synced.

The target of a link in their place may belong to any user, and would get the mode meant for the pool's own files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

NOT_THERE: Final = "a link or a file is in its place (to keep it on another disk, mount that there)"


def make_own_directory(path: Path, mode: int) -> None:
    """Make a directory with this mode, or give the mode to an existing one.

    Raises `NotADirectoryError` for a link or a file, `OSError` if it cannot be made.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=mode)
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise NotADirectoryError(errno.ENOTDIR, NOT_THERE, str(path)) from error
        raise
    try:
        if stat.S_IMODE(os.fstat(directory).st_mode) != mode:
            os.fchmod(directory, mode)
    finally:
        os.close(directory)


def make_root(path: Path, mode: int) -> None:
    """Make a state directory, whose path may lead over links, and give it this mode. Raises `OSError`."""
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    make_own_directory(path.resolve(), mode)


def keep_from_others(path: Path) -> None:
    """Take all rights on a file from other accounts; links and missing files are left alone.

    Opens nothing for reading, so that no lock on the file is lost. Raises `OSError`.
    """
    try:
        file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISLNK(mode) and mode & 0o077:
            os.chmod(f"/proc/self/fd/{file}", 0o600)  # noqa: PTH101 - an open file
    finally:
        os.close(file)


def try_lock(file: int) -> bool:
    """Lock an open file or directory for this process alone; return False if another one has a lock on it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_directory(path: Path) -> None:
    """Write the names of a directory's files to its disk. Raises `OSError`."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
