"""The records in an attempt's directory."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of an unwritable disk."""
RUN_TIME = "run_time"
"""File with the time that an attempt has run so far, in seconds."""
PAUSE, KILL, KILL_NOW = "pause", "kill", "now"
"""The files that request an end of the attempt: for now, for good, and for good without time to save."""
REQUESTS = (KILL_NOW, KILL, PAUSE)
"""All of them, the stronger one first."""


class Names:
    """The names of a supervisor's own records; in a pod, which shares the directory, they have its rank."""

    def __init__(self, rank: int | None) -> None:
        suffix = "" if rank is None else f".{rank}"
        self.rank = rank
        self.lock = f"lock{suffix}"
        self.record = f"supervisor{suffix}.json"
        self.exit = f"exit{suffix}.json"


def write_record(directory: int, name: str, record: dict[str, Any], *, durable: bool = True) -> None:
    """Write the file ``name`` by rename; flush it to disk if ``durable``."""
    temporary = f"{name}.new"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        data = json.dumps(record).encode()
        if os.pwrite(file, data, 0) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), temporary)
        os.ftruncate(file, len(data))
        if durable:
            os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    if durable:
        os.fsync(directory)


def write_in_place(directory: int, name: str, data: bytes, *, durable: bool = False) -> None:
    """Write the beginning of the file ``name``, which takes no further space once it is there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        os.pwrite(file, data, 0)
        if durable:
            os.fsync(file)
    finally:
        os.close(file)


def exists(directory: int, name: str) -> bool:
    """Return whether the directory has an entry ``name``."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def leave(directory: int, name: str) -> None:
    """Create the empty file ``name``, readable by all accounts; that works on a full disk too."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=directory)
    os.fchmod(file, 0o644)
    os.close(file)


def take_lock(directory: int, name: str = "lock") -> int | None:
    """Take the attempt's lock; return a descriptor that holds it until it is closed, None if the lock is taken."""
    lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
