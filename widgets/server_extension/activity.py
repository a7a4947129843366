"""Reports of a notebook server to its pool: whether something runs in it, and when it was last used.

The pool's rule for idle workspaces needs it: the hub alone does not see a kernel's silent computation.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from jupyter_server.utils import ensure_async

from springtide.scheduler.wire import ReportAgain, WorkspaceActivity
from springtide.widgets.server_extension.allowed import Target
from springtide.widgets.server_extension.pool_gate import GateError, PoolGate

FIRST_REPORT: Final = 2.0
"""Delay before the first report, in seconds."""
CHECK_INTERVAL: Final = 5.0
"""Maximum time until a change between busy and idle is noticed, in seconds."""
AGAIN: Final = 60.0
"""Delay before the next report if the pool did not take one, in seconds."""
REPORT: Final = Target("POST", "workspace-activity", takes_body=True)
SESSION: Final = 3
"""Index of the session's id among the fields of ``/proc/PID/stat`` after the name of the command."""

log = logging.getLogger("springtide")


async def report(server: Any, environment: Mapping[str, str]) -> None:
    """Report the use of a running Jupyter server until it ends: as often as the pool asks for it, and on a change.

    Does nothing if no hub with a pool started the server.
    """
    url, token = environment.get("SPRINGTIDE_URL", ""), environment.get("JUPYTERHUB_API_TOKEN", "")
    if not url or not token or "JUPYTERHUB_SERVER_NAME" not in environment:
        return
    gate = PoolGate(url, token)
    try:
        await _report_for_ever(gate, server, environment["JUPYTERHUB_SERVER_NAME"])
    finally:
        await gate.close()


async def _report_for_ever(gate: PoolGate, server: Any, name: str) -> None:
    busy, due = False, time.monotonic() + FIRST_REPORT
    while True:
        await asyncio.sleep(max(0.0, min(CHECK_INTERVAL, due - time.monotonic())))
        try:
            found = activity(server, await ensure_async(server.kernel_manager.list_kernels()), name)
            if found.busy is busy and time.monotonic() < due:
                continue
            due = time.monotonic() + AGAIN
            due = time.monotonic() + await _report_once(gate, msgspec.json.encode(found))
            busy = found.busy
        except GateError as error:
            log.debug("The pool took no report: %s", error)
        except Exception:
            log.exception("The use of this server could not be reported to the pool.")
            due = time.monotonic() + AGAIN


async def _report_once(gate: PoolGate, body: bytes) -> float:
    """Report once; return the delay before the next report, in seconds. Raises `GateError`."""
    status, answer = await gate.ask(REPORT, body)
    return msgspec.json.decode(answer, type=ReportAgain).seconds if status == 200 else AGAIN


def activity(server: Any, kernels: Sequence[Mapping[str, Any]], name: str) -> WorkspaceActivity:
    """Return what a Jupyter server does now; ``kernels`` are as its API lists them, ``name`` is its own."""
    terminals = server.web_app.settings.get("terminal_manager")
    shells = [] if terminals is None else [each.ptyproc.pid for each in terminals.terminals.values()]
    busy = any(kernel.get("execution_state") == "busy" for kernel in kernels) or runs_program(shells)
    times = [server.web_app.last_activity(), *(_moment(kernel.get("last_activity")) for kernel in kernels)]
    times += [] if terminals is None else [_moment(model.get("last_activity")) for model in terminals.list()]
    latest = max(_aware(each) for each in times if each is not None)
    idle = max(0.0, (datetime.now(UTC) - latest).total_seconds())
    return WorkspaceActivity(server=name, busy=busy, idle=None if busy else idle)


def runs_program(shells: Iterable[int], proc: Path = Path("/proc")) -> bool:
    """Return whether a program runs in the session of one of these shells, given by their process ids."""
    sessions = frozenset(shells)
    if not sessions:
        return False
    for entry in os.scandir(proc):
        if entry.name.isdigit() and int(entry.name) not in sessions and _session(Path(entry.path)) in sessions:
            return True
    return False


def _session(process: Path) -> int | None:
    """Return the id of a process's session, None for one that has ended."""
    try:
        fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[SESSION])


def _moment(value: object) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
