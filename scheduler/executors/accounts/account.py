"""An account of this machine: its files, and the directories it may enter."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

LONGEST_NAME = 100


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CAP_SYS_ADMIN = 21


class AccountError(Exception):
    """There is no account for a job or notebook; the message has the reason and a hint."""


@dataclass(frozen=True, slots=True)
class Account:
    """Rights and home of one user, looked up once so that nothing is looked up with these rights.

    ``numeric``: the account is in the pool's own range, and in no passwd file. ``view`` maps directories that the
    account may not enter to the places below them that it needs.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str
    numeric: bool
    view: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def record(self) -> dict[str, Any]:
        """The record for `springtide.scheduler.executors.supervisor.account.become`."""
        view = [[closed, list(places)] for closed, places in self.view]
        return {"name": self.name, "uid": self.uid, "gid": self.gid, "groups": list(self.groups), "view": view}

    @property
    def owner(self) -> tuple[int, int]:
        """Owner and group of the files made for it."""
        return self.uid, self.gid

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of its processes that describe the account."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def home_name(user: str) -> str:
    """Return the name of the directory for a user or server: different for different names, and never a path."""
    quoted = quote(user, safe="@ ").replace("~", "%7E")
    if set(quoted) == {"."}:
        quoted = quoted.replace(".", "%2E")
    return quoted if len(quoted) <= LONGEST_NAME else f"~{hashlib.sha256(user.encode()).hexdigest()}"


def make_private(path: Path, owner: tuple[int, int]) -> None:
    """Make a directory of this owner that no other account may enter; one of ours is handed over."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        hand_over(path, owner)
    else:
        os.chown(path, *owner, follow_symlinks=False)


def hand_over(path: Path, owner: tuple[int, int], *, whosever: bool = False) -> None:
    """Give a file or a directory with all below it to the account, if it belongs to this process's account.

    It does if it is older than the accounts of jobs and notebooks. With ``whosever`` it may belong to any account:
    that of the person who had the job before. Below it, entries of others and links keep their owner, and so do
    files of this process's account with several names. Its own owner changes last, so that an interrupted
    change is done again.
    """
    former = path.lstat().st_uid
    if former == owner[0] or (former != os.geteuid() and not whosever):
        return
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)
        for _, directories, files, handle in os.fwalk(path, topdown=False, follow_symlinks=False):
            for name in (*directories, *files):
                with suppress(FileNotFoundError):  # its owner's processes may run
                    _give(name, handle, former, owner)
    os.chown(path, *owner, follow_symlinks=False)


def _give(name: str, within: int, former: int, owner: tuple[int, int]) -> None:
    """Give a file or directory of the former owner to another one, and nothing that takes its name meanwhile."""
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        about = os.fstat(found)
        is_known = stat.S_ISDIR(about.st_mode) or about.st_nlink == 1 or former != os.geteuid()
        if about.st_uid == former and is_known and not stat.S_ISLNK(about.st_mode):
            os.chown(f"/proc/self/fd/{found}", *owner)
    finally:
        os.close(found)


def interpreter_places() -> tuple[Path, ...]:
    """Return the directories that the Python of this process is installed in."""
    package = Path(__file__).resolve().parents[3]
    executable = Path(sys.executable).resolve().parent
    return (Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), package, executable)


def closed_ways(
    places: Iterable[Path], uid: int, groups: Collection[int]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the directories on the way to ``places`` that the account may not enter, each with these places.

    Only the outermost of nested directories is named, and of nested places only the outermost.
    """
    found: dict[Path, set[Path]] = {}
    for place in sorted({path.resolve() for path in places if path.is_dir()}):
        ways = reversed(place.parents)
        closed = next((way for way in ways if not may_enter(way.stat(), uid, groups)), None)
        if closed is not None and not any(place.is_relative_to(other) for other in found.get(closed, ())):
            found.setdefault(closed, set()).add(place)
    return tuple((str(closed), tuple(map(str, sorted(inside)))) for closed, inside in sorted(found.items()))


def may_enter(status: os.stat_result, uid: int, groups: Collection[int]) -> bool:
    """Return whether the mode bits let an account that is not root pass through a directory."""
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid in groups:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def may_mount() -> bool:
    """Return whether this process has the capability that a mount namespace needs."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    effective = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return bool(effective & 1 << _CAP_SYS_ADMIN)
