"""Notebook servers of one machine: found in the process table, known to the hub or not.

The spawner puts a mark into the environment of each server, which all that the server starts inherits. So a server
is found after the hub was killed while it started, and after the hub's database was lost.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from springtide.scheduler.executors.supervisor.table import ENDED, Process, processes, send, still_alive
from springtide.scheduler.own_files import try_lock

VARIABLE = "SPRINGTIDE_WORKSPACE"
"""Environment variable with the mark."""
GRACE_S = 5.0
"""Time for processes to end after SIGTERM, before SIGKILL, in seconds."""
KILLED_WITHIN_S = 10.0
"""Time in which killed processes end, unless the kernel holds them, in seconds."""
LOOK_S = 0.05
LOCK_PATIENCE_S = 10.0
"""Maximum time to wait for servers between fork and exec, in seconds."""
__all__ = [
    "VARIABLE",
    "Mark",
    "Notebook",
    "NotebooksUnknownError",
    "Process",
    "UidsOf",
    "before_exec",
    "end",
    "of_server",
    "running",
]
_PREFIX = VARIABLE.encode() + b"="

UidsOf = Callable[[str], Collection[int]]
"""Returns the uids that the processes of a user may have; none if these are not known."""


class NotebooksUnknownError(Exception):
    """The running notebook servers are unknown; the message has the reason."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The mark in a server's environment: the pool's state directory, its user, and the uuids of its GPUs.

    ``start`` identifies this start of the server. The server listens on ``port``.
    """

    pool: str
    user: str
    server: str
    start: str
    gpus: tuple[str, ...] = ()
    gpu_type: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True)
class Notebook:
    """One start of a server and its live processes, oldest first."""

    mark: Mark
    processes: tuple[Process, ...]

    @property
    def leader(self) -> Process:
        """The server itself, or the oldest process that it has left behind."""
        return self.processes[0]


def before_exec(state_dir: Path, parent: int) -> None:
    """Prepare a child of the hub ``parent``, between fork and exec, to become a server that a later hub finds.

    The lock lasts until exec, when the mark becomes visible; a search waits for it. A child whose hub has ended
    exits, as that hub's successor may have searched already. Raises `OSError`.
    """
    lock = os.open(_lock_file(state_dir), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    if os.getppid() != parent:
        os._exit(1)


def running(state_dir: Path, uids_of: UidsOf = lambda _: ()) -> tuple[Notebook, ...]:
    """Return the pool's servers with live processes. May block for `LOCK_PATIENCE_S`.

    A process counts as a user's only if it has a uid of hers. Raises `NotebooksUnknownError`.
    """
    found: dict[Mark, list[Process]] = {}
    with _none_between_fork_and_exec(state_dir):
        for each in processes():
            mark = None if each.state in ENDED else _mark_of(each.pid)
            if mark is not None and mark.pool == str(state_dir) and _is_hers(each.pid, uids_of(mark.user)):
                found.setdefault(mark, []).append(each)
    ordered = ((mark, tuple(sorted(of, key=lambda one: (one.start, one.pid)))) for mark, of in found.items())
    return tuple(Notebook(*item) for item in sorted(ordered, key=lambda item: item[1][0].start))


def of_server(notebooks: tuple[Notebook, ...], user: str, server: str) -> tuple[Notebook, ...]:
    """Return the starts of one server, oldest first."""
    return tuple(
        notebook for notebook in notebooks if (notebook.mark.user, notebook.mark.server) == (user, server)
    )


def end(
    state_dir: Path, user: str, server: str, uids_of: UidsOf = lambda _: (), *, grace: float = GRACE_S
) -> tuple[Process, ...]:
    """End all processes of a server, and return those that do not end. Blocks.

    Raises `NotebooksUnknownError`.
    """
    started, signalled = time.monotonic(), list[Process]()
    while True:
        mine = of_server(running(state_dir, uids_of), user, server)
        left = still_alive([*signalled, *(process for notebook in mine for process in notebook.processes)])
        waited = time.monotonic() - started
        if not left or waited > grace + KILLED_WITHIN_S:
            return tuple(left)
        earlier = {process.pid for process in signalled}
        for process in left:
            if waited > grace:
                send(process, signal.SIGKILL)
            elif process.pid not in earlier:
                send(process, signal.SIGTERM)
        signalled = left
        time.sleep(LOOK_S)


def _mark_of(pid: int) -> Mark | None:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    if _PREFIX not in environment:
        return None
    values = (part.removeprefix(_PREFIX) for part in environment.split(b"\0") if part.startswith(_PREFIX))
    try:
        return msgspec.json.decode(next(values, b""), type=Mark)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_hers(pid: int, uids: Collection[int]) -> bool:
    try:
        return not uids or Path(f"/proc/{pid}").stat().st_uid in uids
    except OSError:
        return False


def _lock_file(state_dir: Path) -> Path:
    return state_dir / "notebooks.lock"


@contextmanager
def _none_between_fork_and_exec(state_dir: Path) -> Iterator[None]:
    try:
        lock = os.open(_lock_file(state_dir), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotebooksUnknownError(
            f"{_lock_file(state_dir)} cannot be opened ({error.strerror}), so the notebook servers that run are "
            "not known."
        ) from error
    try:
        deadline = time.monotonic() + LOCK_PATIENCE_S
        while not try_lock(lock):
            if time.monotonic() > deadline:
                raise NotebooksUnknownError(
                    f"A notebook server has been starting for {LOCK_PATIENCE_S:.0f} s without its program."
                )
            time.sleep(LOOK_S)
        yield
    finally:
        os.close(lock)
