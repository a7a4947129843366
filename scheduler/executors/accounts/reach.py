"""Which directories an account may enter, and what it needs of those that it may not."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

_CAP_SYS_ADMIN = 21


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
    for place in sorted({each.resolve() for each in places if each.is_dir()}):
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
