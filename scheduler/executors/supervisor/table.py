"""The process table."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

ENDED = ("Z", "X")
"""States of a process that has ended and holds nothing any more."""


class Process(NamedTuple):
    """One line of the process table. ``start`` is in clock ticks since the machine started."""

    pid: int
    state: str
    parent: int
    session: int
    start: int


def process(pid: int) -> Process | None:
    """Return the present state of the process ``pid``, None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would double the start time
            line = file.read()
    except OSError:
        return None
    fields = line[line.rfind(b")") + 2 :].split()
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def processes() -> list[Process]:
    """Return all processes."""
    found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    return [process for process in found if process is not None]


def is_alive(each: Process) -> bool:
    """Return whether this process has not ended.

    One that was killed lives until the kernel has closed its files, GPUs among them. Its memory, and so its
    environment, is gone before that.
    """
    now = process(each.pid)
    return now is not None and now.start == each.start and now.state not in ENDED


def still_alive(known: Iterable[Process]) -> list[Process]:
    """Return those of the processes that have not ended, each once."""
    by_number = {(each.pid, each.start): each for each in known}
    return [each for each in by_number.values() if is_alive(each)]


def descendants(root: int) -> list[Process]:
    """Return all descendants of the process ``root``."""
    children: dict[int, list[Process]] = {}
    for each in processes():
        children.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    parents = [root]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += [each.pid for each in below]
    return found


def send(target: Process, number: int) -> bool:
    """Send a signal to this process; return False if it has ended, also if another process has its pid."""
    try:
        handle = os.pidfd_open(target.pid)
    except OSError:
        return False
    try:
        if not is_alive(target):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def boot_id() -> str:
    """Return the id of the present boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        return file.read().strip()


def seconds_since_boot() -> float:
    """Return the seconds since the boot of the machine, which no setting of the system clock changes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
