"""What is left of an attempt whose supervisor died."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from springtide.scheduler.executors.supervisor.table import Process, process, processes, send

MARK = b"SPRINGTIDE_PAUSE_FILE="
_GONE = ("Z", "X")


def _marked(pid: int, pause_file: Path) -> bool:
    """Whether the process's environment says that it is the attempt's: the path of the pause file names that."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return MARK + os.fsencode(pause_file) in environment


def _of_session(each: Process, sessions: Mapping[int, int]) -> bool:
    """Whether the process is in a worker's session (``sessions`` maps their leaders to when those started). The
    number of a session is not used again while anybody is in it: one whose leader is gone is still the worker's.
    """
    if each.session not in sessions:
        return False
    leader = process(each.session)
    return leader is None or leader.state in _GONE or leader.start == sessions[each.session]


def leftovers(pause_file: Path, uid: int, sessions: Mapping[int, int], since: int) -> list[Process]:
    """Live processes of the attempt: of its account, started since its supervisor was, and marked by their
    environment or in a worker's session, where they may have overwritten that.
    """
    found = []
    for each in processes():
        if each.state in _GONE or each.start < since:
            continue
        try:
            owner = os.stat(f"/proc/{each.pid}").st_uid  # noqa: PTH116 - thousands of these
        except OSError:
            continue
        if owner == uid and (_marked(each.pid, pause_file) or _of_session(each, sessions)):
            found.append(each)
    return found


def kill_leftovers(pause_file: Path, uid: int, sessions: Mapping[int, int], since: int) -> bool:
    """Kill what is left; whether anything was."""
    found = leftovers(pause_file, uid, sessions, since)
    for each in found:
        send(each, signal.SIGKILL)
    return bool(found)
