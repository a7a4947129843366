"""The processes that a dead supervisor left."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from springtide.scheduler.executors.local.running import GONE, MARK, environment, owner
from springtide.scheduler.executors.supervisor.table import Process, process, processes, send


def _of_session(each: Process, sessions: Mapping[int, int]) -> bool:
    """Return whether the process is in a worker's session; ``sessions`` maps their leaders to their start times.

    The kernel does not reuse the number of a session that has processes: without its leader it is the worker's
    too.
    """
    if each.session not in sessions:
        return False
    leader = process(each.session)
    return leader is None or leader.state in GONE or leader.start == sessions[each.session]


def leftovers(pause_file: Path, uids: Collection[int], sessions: Mapping[int, int], since: int) -> list[Process]:
    """Return the live processes of the attempt.

    These are of its account, started after its supervisor, and have the attempt's mark in their environment or are
    in a worker's session, in case they have overwritten the mark.
    """
    live = []
    for each in processes():
        if each.state in GONE or each.start < since:
            continue
        try:
            uid = owner(each)
        except OSError:
            continue
        marked = uid in uids and environment(each.pid).get(MARK) == str(pause_file)
        if marked or (uid in uids and _of_session(each, sessions)):
            live.append(each)
    return live


def kill_leftovers(pause_file: Path, uids: Collection[int], sessions: Mapping[int, int], since: int) -> bool:
    """Kill the processes of the attempt; return whether there were any."""
    live = leftovers(pause_file, uids, sessions, since)
    for each in live:
        send(each, signal.SIGKILL)
    return bool(live)


def kill_cgroup(path: Path) -> bool:
    """Kill all processes of an attempt's control group, which none can leave; return whether there were any.

    An empty group is removed.
    """
    try:
        pids = [int(pid) for pid in (path / "cgroup.procs").read_text(encoding="ascii").split()]
    except FileNotFoundError:
        return False
    if not pids:
        with suppress(OSError):
            path.rmdir()
        return False
    try:
        (path / "cgroup.kill").write_text("1", encoding="ascii")
    except OSError:  # before Linux 5.14
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return True
