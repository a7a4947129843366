"""Files that belong to an account."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_private(path: Path, owner: tuple[int, int]) -> None:
    """Make a directory of this owner that no other account may enter; one of ours is handed over."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        hand_over(path, owner)
    else:
        os.chown(path, *owner, follow_symlinks=False)


def hand_over(path: Path, owner: tuple[int, int]) -> None:
    """Give a file or a directory with all below it to the account, if it is this process's own.

    That is so where it was made before jobs and notebooks had accounts of their own. Nobody else may reach into it
    meanwhile, and it is the last to change hands: a hand-over that was cut short begins again. Links are changed
    themselves, never followed.
    """
    found = path.lstat()
    if found.st_uid != os.geteuid() or found.st_uid == owner[0]:
        return
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)
        for _, directories, files, handle in os.fwalk(path, topdown=False, follow_symlinks=False):
            for name in (*directories, *files):
                with suppress(FileNotFoundError):  # its owner's processes may run
                    os.chown(name, *owner, dir_fd=handle, follow_symlinks=False)
    os.chown(path, *owner, follow_symlinks=False)
