"""How much a job keeps on the disk, and what it is told when that is too much."""

from __future__ import annotations

import os
import stat
import time
from typing import Any

MIB, GIB = 1 << 20, 1 << 30
SHARE = 20
"""Minimum interval between two measurements, as a multiple of the time that one takes."""


class DiskCap:
    """Measures the folders of a job from time to time.

    ``cap`` has the most that they may take together in bytes (``limit``), their paths by name (``folders``), and
    the interval of measurements in seconds (``every``). None is no cap.
    """

    def __init__(self, cap: dict[str, Any] | None) -> None:
        self._cap = cap
        self.due: float | None = None if cap is None else time.monotonic() + cap["every"]
        """When to measure next, on the monotonic clock; None for never."""

    def exceeded(self) -> str | None:
        """Measure if it is time to; return what is over the cap, in sentences for the job's user."""
        began = time.monotonic()
        if self._cap is None or self.due is None or began < self.due:
            return None
        used = {name: measured(path) for name, path in self._cap["folders"].items()}
        ended = time.monotonic()
        self.due = ended + max(self._cap["every"], SHARE * (ended - began))
        if sum(used.values()) <= self._cap["limit"]:
            return None
        self.due = None
        return over(used, self._cap["limit"])


def measured(path: str) -> int:
    """Return the bytes that a file or a folder takes on the disk; links are not followed, and files count once."""
    seen: set[tuple[int, int]] = set()
    waiting, found = [path], 0
    while waiting:
        current = waiting.pop()
        try:
            about = os.lstat(current)
            if stat.S_ISDIR(about.st_mode):
                with os.scandir(current) as entries:
                    waiting += [entry.path for entry in entries]
        except OSError:
            continue
        if (about.st_dev, about.st_ino) not in seen:
            seen.add((about.st_dev, about.st_ino))
            found += about.st_blocks * 512
    return found


def over(used: dict[str, int], limit: int) -> str:
    """Return the sentences of a job that keeps more than it may, the largest of its folders first."""
    largest_first = sorted(used.items(), key=lambda each: -each[1])
    parts = ", ".join(f"{name} {_amount(size)}" for name, size in largest_first if size)
    return (
        f"It keeps {_amount(sum(used.values()))} on the disk ({parts}); a job of this pool may keep "
        f"{_amount(limit)}. Delete older checkpoints and outputs while it runs, or report less often."
    )


def _amount(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.1f} MiB"
