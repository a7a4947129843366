"""Use of processor and memory by the processes of an attempt, from ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Use(NamedTuple):
    """Processor time in seconds, that of ended processes included, and resident memory in bytes."""

    seconds: float
    resident: int


class _Process(NamedTuple):
    parent: int
    own: int
    waited: int
    pages: int


def machine_capacity(control: Path = Path("/sys/fs/cgroup")) -> tuple[float, int]:
    """Return the cores and the bytes of memory that this process may use: of the machine, or of its container.

    ``control`` is the control group (version 2) of the whole container.
    """
    cores, memory = float(len(os.sched_getaffinity(0))), os.sysconf("SC_PHYS_PAGES") * PAGE
    most, _, period = _limit(control / "cpu.max").partition(" ")
    if most.isdigit() and period.isdigit():
        cores = min(cores, int(most) / int(period))
    limit = _limit(control / "memory.max")
    return cores, min(memory, int(limit)) if limit.isdigit() else memory


def _limit(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def used_below(roots: Collection[int]) -> dict[int, Use]:
    """Return what all descendants of each process have used; without a root that does not exist.

    The time of an ended process counts as soon as its parent has waited for it.
    """
    table = _processes()
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    return {root: _sum(root, table, children) for root in roots if root in table}


def _sum(root: int, table: dict[int, _Process], children: dict[int, list[int]]) -> Use:
    ticks, pages = table[root].waited, 0
    parents = [root]
    while parents:
        below = children.get(parents.pop(), [])
        ticks += sum(table[pid].own + table[pid].waited for pid in below)
        pages += sum(table[pid].pages for pid in below)
        parents += below
    return Use(ticks / TICKS, pages * PAGE)


def _processes() -> dict[int, _Process]:
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes twice the time
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    line = file.read()
            except OSError:
                continue
            fields = line[line.rfind(b")") + 2 :].split()
            own, waited = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            found[int(name)] = _Process(int(fields[1]), own, waited, int(fields[21]))
    return found
