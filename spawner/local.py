"""Build notebooks as processes of this machine."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
from collections import deque
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from traitlets import Unicode, default

from springtide.spawner.processes import identity
from springtide.spawner.quota import BuildQuota, refusal

LAST_LINES = 12
LONGEST_LINE = 400


class LocalNotebook(BuildQuota, LocalProcessSpawner):
    """What both local spawners add: a log per notebook, and a process that is known by more than its pid."""

    log_dir = Unicode(help="Directory for the notebooks' logs; empty: they write where the hub does.").tag(
        config=True
    )

    pid: int
    popen_kwargs: dict[str, Any]

    _identity: str | None = None

    # ---------- start

    async def start(self) -> Any:
        """Start, and answer once the server listens. Raises what `refusal` makes if it ends before."""
        configured: dict[str, Any] = self.popen_kwargs
        with self._log_path().open("wb") if self.log_dir else nullcontext() as log:
            if log is not None:
                ours = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
                self.popen_kwargs = {**ours, **configured}
            try:
                ip, port = await super().start()
            finally:
                self.popen_kwargs = configured
        self._identity = self._identity_now()
        await self._until_it_listens(ip, port)
        return ip, port

    async def _until_it_listens(self, ip: str, port: int) -> None:
        while not await listens(ip, port):
            code = self.proc.poll()
            if code is not None:
                raise refusal(self._obituary(code), status=500, reason="exited")
            await asyncio.sleep(0.1)

    def _obituary(self, code: int) -> str:
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        message = f"The notebook server {ended} before it was ready."
        lines = last_lines(self._log_path()) if self.log_dir else []
        return (
            f"{message} Its last words: {' / '.join(lines)}" if lines else f"{message} The hub's log may tell why."
        )

    def _log_path(self) -> Path:
        return Path(self.log_dir) / f"{file_name(self.user.name)}+{file_name(self.name)}.log"

    # ---------- the process

    def _identity_now(self) -> str | None:
        try:
            return identity(self.pid)
        except LookupError:
            return None

    async def poll(self) -> int | None:
        """As the spawner's own; a process that only has the pid of a notebook from before is none."""
        if self.proc is None and self.pid and self._identity and self._identity_now() != self._identity:
            self.pid = 0
        status: int | None = await super().poll()
        return status

    def get_state(self) -> dict[str, Any]:
        """The state of what it is built on, and which process it is."""
        state = super().get_state()
        return state | {"identity": self._identity} if self._identity else state

    def load_state(self, state: dict[str, Any]) -> None:
        """Find the process of a notebook that outlived the hub."""
        super().load_state(state)
        self._identity = state.get("identity")

    def clear_state(self) -> None:
        """The server is gone, or about to be started afresh."""
        super().clear_state()
        self._identity = None


class LocalBuildSpawner(LocalNotebook, LocalProcessSpawner):
    """Notebooks as processes of system users of the same name; for a hub that runs as root."""


class SimpleBuildSpawner(LocalNotebook, SimpleLocalProcessSpawner):
    """Notebooks as processes of the hub's own account, each with a home directory of its own.

    There is no isolation between users: for one person, or people who trust each other.
    """

    @default("home_dir")
    def _default_home_dir(self) -> str:
        return str(self.home_dir_template.format(username=file_name(self.user.name)))


async def listens(ip: str, port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        _, writer = await asyncio.open_connection(ip, port)
    except OSError:
        return False
    writer.close()
    return True


def file_name(name: str) -> str:
    """A file's name for any user's or server's name: never the same for two, never a path."""
    quoted = quote(name, safe="@ ").replace("~", "%7E")
    if set(quoted) == {"."}:
        quoted = quoted.replace(".", "%2E")
    return quoted if len(quoted) <= 100 else f"~{hashlib.sha256(name.encode()).hexdigest()}"


def last_lines(log: Path) -> list[str]:
    """The end of a log, fit to be shown: a few lines of printable characters."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            tail = deque(lines, LAST_LINES)
    except OSError:
        return []
    shown = ("".join(c for c in line if c.isprintable()).strip()[:LONGEST_LINE] for line in tail)
    return [line for line in shown if line]
