"""The disk usage of a job, and the message if it exceeds the limit."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

MIB, GIB = 1 << 20, 1 << 30
SHARE = 20
"""Minimum interval between two measurements, as a multiple of their duration."""
DEEPEST = 256
"""Depth of folders up to which they are measured; deeper ones are a reason to end the job."""
DELETED = "deleted files that it has open"
CHECKPOINTS, OUTPUTS, WORK = "checkpoints", "outputs", "working directory"
CODE, REPORTS = "submitted files", "reports"
ADVICE = {
    CHECKPOINTS: "Keep fewer checkpoints, or smaller ones.",
    OUTPUTS: "Have the program delete outputs that are no longer needed.",
    WORK: "Have the program delete files in its working directory that it needs no more.",
    CODE: "Have the program write its files elsewhere than beside the submitted ones.",
    REPORTS: "Have the program report less often.",
    DELETED: "Have the program close the files that it deletes.",
}
"""What keeps a job below its disk limit, by its largest folder."""
NOTABLE = 0.01
"""Part of all that a job keeps from which on a folder is named."""
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors for a folder removed or replaced since it was listed."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Seen = set[tuple[int, int]]
"""Device and inode of the counted files."""


class UnmeasurableError(Exception):
    """A job's folders cannot be measured; the message has the reason."""


class DiskCap:
    """Measures the folders of a job from time to time.

    ``cap`` has the most that they may take together in bytes (``limit``), their paths by name (``folders``), and
    the interval of measurements in seconds (``every``). None is no cap. ``pids`` returns the job's processes.
    """

    def __init__(self, cap: dict[str, Any] | None, pids: Callable[[], Iterable[int]]) -> None:
        self._cap = cap
        self._pids = pids
        self.due: float | None = None if cap is None else time.monotonic() + cap["every"]
        """When to measure next, on the monotonic clock; None for never."""

    def exceeded(self) -> str | None:
        """Measure if it is due; return sentences about an exceeded cap for the job's user, else None."""
        began = time.monotonic()
        if self._cap is None or self.due is None or began < self.due:
            return None
        try:
            used = self._used(self._cap["folders"])
        except UnmeasurableError as error:
            self.due = None
            return (
                f"What it keeps on the disk cannot be measured: {error}. "
                f"A job of this pool may keep {_amount(self._cap['limit'])}."
            )
        ended = time.monotonic()
        self.due = ended + max(self._cap["every"], SHARE * (ended - began))
        if sum(used.values()) <= self._cap["limit"]:
            return None
        self.due = None
        return over(used, self._cap["limit"])

    def _used(self, folders: dict[str, str]) -> dict[str, int]:
        seen: Seen = set()
        used = {name: measured(path, seen) for name, path in folders.items()}
        used[DELETED] = deleted(self._pids(), _devices(folders.values()), seen)
        return used


def measured(path: str, seen: Seen) -> int:
    """Return the bytes that a file or a folder takes on the disk; links are not followed, and files count once.

    Raises `UnmeasurableError`.
    """
    return _measured(path, None, seen, DEEPEST)


def _measured(name: str, within: int | None, seen: Seen, levels: int) -> int:
    """Return the bytes of a file or folder of the open folder ``within``; its whole path may have any length."""
    try:
        about = os.stat(name, dir_fd=within, follow_symlinks=False)
        found = _counted(about, seen)
        if not stat.S_ISDIR(about.st_mode):
            return found
        if not levels:
            raise UnmeasurableError(f"its folders are nested more than {DEEPEST} deep")
        folder = os.open(name, FOLDER, dir_fd=within)
    except OSError as error:
        if error.errno in GONE:
            return 0
        raise UnmeasurableError(f"one of its folders cannot be read ({error.strerror})") from error
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        return found + sum(_measured(name, folder, seen, levels - 1) for name in names)
    finally:
        os.close(folder)


def deleted(pids: Iterable[int], devices: frozenset[int], seen: Seen) -> int:
    """Return the bytes of the files on these devices that have no name and that the processes have open."""
    found = 0
    for pid in pids:
        for where in ("fd", "map_files"):
            with suppress(OSError):
                for name in os.listdir(f"/proc/{pid}/{where}"):  # noqa: PTH208 - the names are enough
                    with suppress(OSError):
                        about = os.stat(f"/proc/{pid}/{where}/{name}")  # noqa: PTH116 - of a link's open target
                        if stat.S_ISREG(about.st_mode) and not about.st_nlink and about.st_dev in devices:
                            found += _counted(about, seen)
    return found


def _counted(about: os.stat_result, seen: Seen) -> int:
    if (about.st_dev, about.st_ino) in seen:
        return 0
    seen.add((about.st_dev, about.st_ino))
    return about.st_blocks * 512


def _devices(paths: Iterable[str]) -> frozenset[int]:
    """Return the devices that hold these files and folders."""
    found = set()
    for path in paths:
        with suppress(OSError):
            found.add(os.lstat(path).st_dev)
    return frozenset(found)


def over(used: dict[str, int], limit: int) -> str:
    """Return the sentences about an exceeded disk limit: the large folders, the largest first, and what helps."""
    total = sum(used.values())
    largest_first = sorted(used.items(), key=lambda folder: -folder[1])
    parts = ", ".join(f"{name} {_amount(size)}" for name, size in largest_first if size >= total * NOTABLE)
    kept = f"{_amount(total)} on the disk ({parts}), of {_amount(limit)} that a job of this pool may keep."
    return f"{kept} {ADVICE[largest_first[0][0]]}"


def _amount(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.1f} MiB"
