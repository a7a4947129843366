"""People at a real hub: what they do in a browser and through the hub's REST API."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
from hub_process import PASSWORD, HubProcess

from springtide.scheduler.client import Client, Unreachable

T = TypeVar("T")


def until(what: str, condition: Callable[[], T], *, seconds: float = 60) -> T:
    """Wait until the condition holds; its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} seconds in vain for {what}"
        threading.Event().wait(0.1)
    return value


class Hub(HubProcess):
    """A hub, with what the tests ask it."""

    def __init__(self, state_dir: Path, config: str = "") -> None:
        super().__init__(state_dir)
        with self._config.open("a") as file:
            file.write(config)

    def kill(self) -> None:
        """End the hub the hard way; its service and proxy are left to themselves."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def interrupt(self) -> None:
        """Ctrl-C."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(60) == 0

    def service_after(self, killed: int) -> int:
        """Wait until another service answers; its pid."""

        def another() -> int | None:
            with contextlib.suppress(LookupError, Unreachable), self.pool() as pool:
                pid = self.service_pid()
                return pid if pid != killed and pool.pool() else None
            return None

        return until("the service", another)

    def pool(self) -> Client:
        """The pool, as the hub itself sees it."""
        return Client(f"{self.url}/services/springtide", (self.state_dir / "service-token").read_text())

    def held(self) -> dict[tuple[str, str], int]:
        """Build GPUs held, by user and name of the holder."""
        found: dict[tuple[str, str], int] = {}
        with self.pool() as pool:
            for node in pool.pool().nodes:
                for cell in node.gpus:
                    if cell.holder is not None and cell.holder.kind == "workspace":
                        who = (cell.holder.user, cell.holder.name)
                        found[who] = found.get(who, 0) + 1
        return found


class Person:
    """Somebody with a browser and a token of her own."""

    def __init__(self, hub: Hub, name: str) -> None:
        self.hub, self.name = hub, name
        self.browser = httpx.Client(base_url=hub.url, follow_redirects=True, timeout=60)
        page = self.browser.get("/hub/login")
        form = {"username": name, "password": PASSWORD, "_xsrf": page.cookies["_xsrf"]}
        self.browser.post("/hub/login", data=form).raise_for_status()
        self.api = httpx.Client(
            base_url=f"{hub.url}/hub/api/users",
            headers={"Authorization": f"token {hub.token(name)}"},
            timeout=60,
        )

    def close(self) -> None:
        self.browser.close()
        self.api.close()

    def send_form(self, gpus: str, server: str = "") -> httpx.Response:
        """Press Start on the page."""
        path = f"/hub/spawn/{self.name}/{server}" if server else "/hub/spawn"
        self.browser.get(path)
        xsrf = next(
            cookie.value
            for cookie in self.browser.cookies.jar
            if cookie.name == "_xsrf" and cookie.path == "/hub/"
        )
        return self.browser.post(path, params={"_xsrf": xsrf}, data={"gpus": gpus})

    def path(self, server: str = "") -> str:
        """Where the hub's REST API has a server."""
        return f"{self.name}/servers/{server}" if server else f"{self.name}/server"

    def start(self, options: dict[str, Any] | None = None, server: str = "") -> httpx.Response:
        """Start through the REST API."""
        return self.api.post(self.path(server), json=options)

    def stop(self, server: str = "") -> None:
        """Stop, and wait for the end."""
        self.api.request("DELETE", self.path(server)).raise_for_status()
        until(f"the end of {self.name}'s notebook", lambda: self.server(server) is None)

    def server(self, name: str = "") -> dict[str, Any] | None:
        """The hub's model of a server that is running or about to."""
        servers: dict[str, Any] = self.api.get(self.name).json()["servers"]
        return servers.get(name)

    def ready(self, name: str = "") -> int:
        """Wait until the server is ready; its pid."""
        until(f"{self.name}'s notebook", lambda: (self.server(name) or {}).get("ready"), seconds=90)
        return until("its process", lambda: notebook_pid(self.hub.state_dir, self.name, name))


def notebook_pid(state_dir: Path, user: str, server: str = "") -> int | None:
    """The process of a notebook server, by its environment."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            env = environment(int(entry.name)) if entry.name.isdigit() else {}
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if (
                arguments[1:3] == [b"-m", b"jupyterhub.singleuser"]
                and env.get("HOME") == str(state_dir / "homes" / user)
                and env.get("JUPYTERHUB_SERVER_NAME") == server
            ):
                return int(entry.name)
    return None


def environment(pid: int) -> dict[str, str]:
    """The environment a process was started with."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
