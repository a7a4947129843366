"""A real `springtide up` as a process of its own, for tests and benchmarks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from patience import PATIENCE_S
from servers.ports import free_port

START_TIMEOUT_S = 2 * PATIENCE_S
POLL_S = 0.3
"""Interval of asking whether a hub is up, in seconds: while it starts, it draws a page for each answer."""


SESSION = "jupyterhub-session-id"
PAGES = ("jupyterlab", "jupyter_lsp", "notebook")
"""Extensions of a notebook server that have its pages."""

PATIENT = f"c.Spawner.start_timeout = c.Spawner.http_timeout = {2 * PATIENCE_S:.0f}"
"""Settings of a hub whose notebook servers may take as long as on a busy machine."""

WITHOUT_PAGES = f"""
c.Spawner.environment.update({{"JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp"}})
c.Spawner.default_url = "/api"
c.Spawner.args.extend(["--ServerApp.jpserver_extensions={dict.fromkeys(PAGES, False)}"])
"""
"""Settings of a hub none of whose notebook servers' pages is opened: a server starts in half the time."""

ONE_HOST_NAME = "c.JupyterHub.subdomain_host = ''\n"
"""Setting of a hub whose pages and notebook servers share a host name, which programs can look up."""


class HubProcess:
    """`springtide up` on a state directory; can be started, killed and started again on the same directory."""

    def __init__(self, state_dir: Path, *, settings: dict[str, object] | None = None, config: str = "") -> None:
        self.state_dir = state_dir
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = state_dir.parent / f"{state_dir.name}.log"
        self._config = state_dir.parent / f"{state_dir.name}_config.py"
        uids = state_dir.parent / "uids.json"
        registry = f"c.Springtide.uid_registry = {str(uids)!r}"
        lines = [
            PATIENT,
            registry,
            *(f"c.Springtide.{name} = {value!r}" for name, value in (settings or {}).items()),
        ]
        self._config.write_text("\n".join([*lines, config]) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self._asking = httpx.Client(base_url=self.url, timeout=PATIENCE_S, verify=False)

    @property
    def password(self) -> str:
        """Password that this hub created for its users."""
        return (self.state_dir / "password").read_text().strip()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        """Return the command that starts the hub."""
        command = [sys.executable, "-m", "springtide", "up", "--port", str(self.port)]
        return [*command, "--state-dir", str(self.state_dir), "--config", str(self._config)]

    @property
    def ended(self) -> bool:
        """Whether the hub has ended, or was never started."""
        return self._process is None or self._process.poll() is not None

    def begin(self) -> None:
        """Start the hub, and do not wait for it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, start_new_session=True)

    def start(self) -> None:
        """Start the hub, and wait until the hub and the pool's service answer."""
        self.begin()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if self.ended or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"springtide up did not come up:\n{self.log.read_text()[-4000:]}")
            threading.Event().wait(POLL_S)

    def answers(self) -> bool:
        """Return whether the service answers through the proxy."""
        with contextlib.suppress(httpx.HTTPError):
            return self._asking.get("/services/springtide/api/v1/health").status_code == 200
        return False

    def stop(self) -> None:
        """Stop the hub as Ctrl-C does, then end the remaining notebooks and jobs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pid in processes_of(self.state_dir):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def service_pid(self) -> int:
        """Return the pid of the managed service."""
        for pid in processes_of(self.state_dir):
            with contextlib.suppress(OSError):
                arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if arguments[1:3] == [b"-m", b"springtide.hub_extension"]:
                    return pid
        raise LookupError("no service is running")

    def token(self, user: str) -> str:
        """Return an API token of a user, created the way the hub's token page does."""
        with visitor(self.url) as browser:
            page = browser.get("/hub/login")
            form = {"username": user, "password": self.password, "_xsrf": _xsrf(page.text)}
            home = browser.post("/hub/login", data=form, follow_redirects=False)
            assert home.is_redirect, home.text
            page = browser.get("/hub/token")
            made = browser.post(
                f"/hub/api/users/{user}/tokens",
                json={"note": "test"},
                headers={"X-XSRFToken": _xsrf(page.text), "Referer": f"{self.url}/hub/token"},
            )
            made.raise_for_status()
            return str(made.json()["token"])


def visitor(url: str) -> httpx.Client:
    """Return a client that logs in as a browser does, under the address of the loopback interface.

    The hub sets the cookie of the session for its own name, ``localhost``; Python's cookie jar refuses it.
    """
    client = httpx.Client(base_url=url, follow_redirects=True, timeout=PATIENCE_S, verify=False)

    def keep_session(answer: httpx.Response) -> None:
        for header in answer.headers.get_list("Set-Cookie"):
            name, _, rest = header.partition("=")
            if name == SESSION:
                client.cookies.set(name, rest.partition(";")[0])

    client.event_hooks = {"response": [keep_session]}
    return client


def _xsrf(page: str) -> str:
    found = re.search(r'name="_xsrf" value="([^"]+)"', page) or re.search(r'xsrf_token: "([^"]+)"', page)
    assert found, page
    return found.group(1)


def processes_of(state_dir: Path) -> Iterator[int]:
    """Yield the processes that have the state directory on their command line or in their environment."""
    mark = str(state_dir).encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "cmdline").read_bytes() or mark in (entry / "environ").read_bytes():
                    yield int(entry.name)
