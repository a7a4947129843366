"""The small files of an attempt's directory."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a disk that takes no more says."""


class Names:
    """What a supervisor calls its own records: in a pod it has one worker, and the directory with others."""

    def __init__(self, rank: int | None) -> None:
        suffix = "" if rank is None else f".{rank}"
        self.rank = rank
        self.lock = f"lock{suffix}"
        self.record = f"supervisor{suffix}.json"
        self.exit = f"exit{suffix}.json"


def write_record(directory: int, name: str, record: dict[str, Any], *, durable: bool = True) -> None:
    """Write ``name`` in the directory by rename; it is on disk afterwards if ``durable``."""
    beside = f"{name}.new"
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        data = json.dumps(record).encode()
        if os.pwrite(file, data, 0) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), beside)
        os.ftruncate(file, len(data))
        if durable:
            os.fsync(file)
    finally:
        os.close(file)
    os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
    if durable:
        os.fsync(directory)


def exists(directory: int, name: str) -> bool:
    """Whether the directory has an entry ``name``."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def leave(directory: int, name: str) -> None:
    """Make the empty file ``name``, for everybody to see; that works on a full disk too."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=directory)
    os.fchmod(file, 0o644)
    os.close(file)


def take_lock(directory: int, name: str = "lock") -> int | None:
    """Take the attempt's lock: a descriptor that holds it until closed, None if somebody else does."""
    lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
