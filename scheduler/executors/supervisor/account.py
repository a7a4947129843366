"""The change of a process to another account: its view of the files, then its rights, for good; and its end."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 32, 4096, 16384, 1 << 19


def become(account: dict[str, Any]) -> None:
    """Give up this process's rights for those of the account. Raises OSError if the kernel refuses."""
    if account["view"]:
        open_ways(account["view"])
    os.setgroups(account["groups"])
    os.setresgid(account["gid"], account["gid"], account["gid"])
    os.setresuid(account["uid"], account["uid"], account["uid"])


def forbid_new_privileges() -> None:
    """Make setuid programs and file capabilities ineffective for this process and all below it."""
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def end_with(parent: int) -> None:
    """Have this process killed when its parent, the process ``parent``, ends.

    A change of account undoes that, so it comes after `become`.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def open_ways(view: list[tuple[str, list[str]]]) -> None:
    """Give this process a mount namespace in which closed directories lead to the places that the account needs.

    ``view`` maps a directory that the account may not enter to the directories below it that it needs. In the
    namespace the former holds nothing but the ways to the latter; outside nothing changes. Needs CAP_SYS_ADMIN.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS), "unshare")
    _mount(libc, ("none", "/", None), _MS_REC | _MS_SLAVE)
    umask = os.umask(0)
    for closed, places in view:
        opened = [(place, os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) for place in places]
        _mount(libc, ("tmpfs", closed, "tmpfs"), _MS_NOSUID | _MS_NODEV, b"mode=0711,size=256k")
        for place, file in opened:
            os.makedirs(place, 0o711, exist_ok=True)  # noqa: PTH103 - light to start
            _mount(libc, (f"/proc/self/fd/{file}", place, None), _MS_BIND | _MS_REC)
            os.close(file)
        _mount(libc, ("none", closed, None), _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    os.umask(umask)


def _mount(libc: ctypes.CDLL, what: tuple[str, str, str | None], flags: int, options: bytes | None = None) -> None:
    """Mount ``what``: source, target and type of the file system."""
    source, target, kind = (None if word is None else os.fsencode(word) for word in what)
    _check(libc.mount(source, target, kind, ctypes.c_ulong(flags), options), what[1])


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
