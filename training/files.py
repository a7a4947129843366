"""Files that are written completely or not at all, at once or when a full disk has room."""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, quota or limit."""
RETRY_AFTER = 0.5
"""Time between two tries to write to a full disk, in seconds."""
LAST_PATIENCE = 600.0
"""Maximum time that the last checkpoint of a training, or its result, waits for room, in seconds."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file completely or not at all, and put it on disk. Raises `OSError`; nothing is left then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def write_when_there_is_room(
    path: Path, data: bytes, waits: Callable[[float], object] = lambda _seconds: None
) -> None:
    """Write a file as `write_atomically` does; on a full disk, wait up to `LAST_PATIENCE` seconds for room.

    The log says when the wait begins and ends. ``waits`` is called with the seconds that it may last, and at its
    end with 0. Raises `OSError` for any other error, and for a disk that stays full.
    """
    began, is_waiting = time.monotonic(), False
    while True:
        try:
            write_atomically(path, data)
        except OSError as error:
            if error.errno not in FULL or time.monotonic() - began >= LAST_PATIENCE:
                raise
        else:
            break
        if not is_waiting:
            is_waiting = True
            patience = f"{LAST_PATIENCE / 60:g} minutes"
            warn(f"There is no room for {path.name} in {path.parent}. It is tried again for {patience}.")
            waits(LAST_PATIENCE)
        time.sleep(RETRY_AFTER)
    if is_waiting:
        warn(f"There was room for {path.name} after {time.monotonic() - began:.0f} s.")
        waits(0.0)


def wait_until(is_done: Callable[[], bool]) -> None:
    """Wait until something has found room, for at most `LAST_PATIENCE` seconds."""
    until = time.monotonic() + LAST_PATIENCE
    while not is_done() and time.monotonic() < until:
        time.sleep(RETRY_AFTER)


def warn(words: str) -> None:
    """Say something in the job's log, if that has room."""
    with suppress(OSError):
        sys.stderr.write(f"springtide: {words}\n")
        sys.stderr.flush()
