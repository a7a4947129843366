"""Proxies and services that outlived their hub: the next hub on the state directory ends them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from springtide.scheduler.executors.supervisor.table import ENDED, Process, processes, send, still_alive

STATE_DIR = "SPRINGTIDE_STATE_DIR"
"""Environment variable of the hub's own processes with the state directory."""
HUB_PID = "SPRINGTIDE_HUB_PID"
"""Environment variable of the service with the pid of its hub."""
PROXY = "springtide.hub_extension.local_hub.proxy"
SERVICE = "springtide.hub_extension"
"""Modules that the hub runs as processes."""
LEAVE_WITHIN_S = 20.0
"""Time between SIGTERM and SIGKILL for an orphan, in seconds."""
LOOK_S = 0.05


def end_orphans(state_dir: Path, modules: tuple[str, ...] = (PROXY, SERVICE)) -> None:
    """End the processes of former hubs on the state directory. Call it with the directory locked. Blocks."""
    until = time.monotonic() + LEAVE_WITHIN_S
    signalled = list[Process]()
    while left := still_alive([*signalled, *orphans(state_dir, modules)]):
        late = time.monotonic() > until
        earlier = {process.pid for process in signalled}
        for process in left:
            if late or process.pid not in earlier:
                send(process, signal.SIGKILL if late else signal.SIGTERM)
        signalled = left
        time.sleep(LOOK_S)


def orphans(state_dir: Path, modules: tuple[str, ...]) -> Iterator[Process]:
    """Yield the processes of this account that run one of the modules on the state directory without their hub.

    A service whose parent is its hub is no orphan: that hub is no `springtide up`, which would hold the lock.
    """
    mark = f"{STATE_DIR}={state_dir}".encode()
    for process in processes():
        if process.state not in ENDED and _module_of(process.pid) in modules:
            environment = _environment_of(process.pid)
            if mark in environment and f"{HUB_PID}={process.parent}".encode() not in environment:
                yield process


def _module_of(pid: int) -> str | None:
    """Return the module that a process of this account runs as ``python -m MODULE``."""
    try:
        if Path(f"/proc/{pid}").stat().st_uid != os.geteuid():
            return None
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return argv[2].decode(errors="replace") if len(argv) > 2 and argv[1] == b"-m" else None


def _environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
