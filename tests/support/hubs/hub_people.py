"""Users of a real hub: their actions in a browser and through the hub's REST API."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
from hubs.hub_process import HubProcess, visitor
from patience import PATIENCE_S

from springtide.scheduler.client import Client, Unreachable

T = TypeVar("T")
NOTEBOOK = b"\0-m\0jupyterhub.singleuser\0"
"""Part of the command of notebook servers."""


RARELY_S = 0.4
"""Interval of asking for what takes seconds, such as the start of a service or a notebook server, in seconds."""


def until(what: str, condition: Callable[[], T], *, seconds: float = PATIENCE_S, every: float = 0.1) -> T:
    """Wait until the condition returns a true value; return that value. It is checked every ``every`` seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} seconds in vain for {what}"
        threading.Event().wait(every)
    return value


class Hub(HubProcess):
    """A hub, with the queries of the tests."""

    def __init__(self, state_dir: Path, config: str = "") -> None:
        super().__init__(state_dir, config=config)

    def kill(self) -> None:
        """Kill the hub with SIGKILL; its service and proxy keep running."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def wait(self) -> None:
        """Wait until the hub has ended by itself or by a signal; its service and proxy may keep running."""
        assert self._process is not None
        self._process.wait(PATIENCE_S)

    def interrupt(self) -> None:
        """Send the hub SIGINT, as Ctrl-C does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE_S) == 0

    def service_after(self, killed: int) -> int:
        """Wait until another service answers; return its pid."""

        def another() -> int | None:
            with contextlib.suppress(LookupError, Unreachable), self.pool() as pool:
                pid = self.service_pid()
                return pid if pid != killed and pool.pool() else None
            return None

        return until("the service", another, every=RARELY_S)

    def pool(self) -> Client:
        """Return a client of the pool with the token of the service."""
        return Client(f"{self.url}/services/springtide", (self.state_dir / "service-token").read_text())

    def held(self) -> dict[tuple[str, str], int]:
        """Return the number of build GPUs held, by user and name of the holder."""
        found: dict[tuple[str, str], int] = {}
        with self.pool() as pool:
            for node in pool.pool().nodes:
                for cell in node.gpus:
                    if cell.holder is not None and cell.holder.kind == "workspace":
                        who = (cell.holder.user, cell.holder.name)
                        found[who] = found.get(who, 0) + 1
        return found


class Person:
    """A user with a browser and an API token."""

    def __init__(self, hub: Hub, name: str) -> None:
        self.hub, self.name = hub, name
        self.browser = visitor(hub.url)
        page = self.browser.get("/hub/login")
        form = {"username": name, "password": hub.password, "_xsrf": page.cookies["_xsrf"]}
        assert self.browser.post("/hub/login", data=form, follow_redirects=False).is_redirect
        self.token = hub.token(name)
        self.api = httpx.Client(
            base_url=f"{hub.url}/hub/api/users",
            headers={"Authorization": f"token {self.token}"},
            timeout=PATIENCE_S,
            verify=False,
        )

    def close(self) -> None:
        self.browser.close()
        self.api.close()

    def send_form(self, gpus: str, server: str = "", **fields: str) -> httpx.Response:
        """Submit the spawn form of the page; ``fields`` are those of the hub's own form."""
        path = f"/hub/spawn/{self.name}/{server}" if server else "/hub/spawn"
        self.browser.get(path)
        xsrf = next(
            cookie.value
            for cookie in self.browser.cookies.jar
            if cookie.name == "_xsrf" and cookie.path == "/hub/"
        )
        return self.browser.post(path, params={"_xsrf": xsrf}, data={"gpus": gpus, **fields})

    def path(self, server: str = "") -> str:
        """Return the path of a server in the hub's REST API."""
        return f"{self.name}/servers/{server}" if server else f"{self.name}/server"

    def start(self, options: dict[str, Any] | None = None, server: str = "") -> httpx.Response:
        """Start a server through the REST API."""
        return self.api.post(self.path(server), json=options)

    def stop(self, server: str = "") -> None:
        """Stop a server, and wait for its end."""
        self.api.request("DELETE", self.path(server)).raise_for_status()
        until(f"the end of {self.name}'s notebook", lambda: self.server(server) is None)

    def server(self, name: str = "") -> dict[str, Any] | None:
        """Return the hub's model of a running or starting server."""
        servers: dict[str, Any] = self.api.get(self.name).json()["servers"]
        return servers.get(name)

    def wait_until_ready(self, name: str = "") -> None:
        """Wait until the server answers."""
        until(
            f"{self.name}'s notebook",
            lambda: (self.server(name) or {}).get("ready"),
            seconds=2 * PATIENCE_S,
            every=RARELY_S,
        )

    def ready(self, name: str = "") -> int:
        """Wait until the server is ready; return its pid."""
        self.wait_until_ready(name)
        return until("its process", lambda: notebook_pid(self.hub.state_dir, self.name, name))


def notebook_pid(state_dir: Path, user: str, server: str = "") -> int | None:
    """Return the pid of a notebook server, the one that was started last, found by its environment."""
    homes = state_dir / "homes"
    found: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit() or NOTEBOOK not in (entry / "cmdline").read_bytes():
                continue
            env = environment(int(entry.name))
            whose = (
                env.get("JUPYTERHUB_USER"),
                env.get("JUPYTERHUB_SERVER_NAME"),
                Path(env.get("HOME", "/")).parent,
            )
            if whose == (user, server, homes):
                found[int(entry.name)] = entry.stat().st_ctime
    return max(found, key=found.__getitem__, default=None)


def environment(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
