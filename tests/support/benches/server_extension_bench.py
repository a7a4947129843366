"""A real Jupyter server with the server extension, as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from patience import PATIENCE_S
from servers.ports import free_port

from springtide.hub_extension.local_hub.single import AS_INSTALLED, QUIET

LAST_WORK_S = 20.0
"""Time that a server without kernels has for what it still does, in seconds."""
TOKEN = "the-notebook-servers-own"
UNUSED = (
    "audio csvviewer debugger extensionmanager htmlviewer imageviewer inspector logconsole lsp markdownviewer "
    "mathjax mermaid pdf pluginmanager toc vega5 video"
)
"""Extensions of JupyterLab that no test with this server looks at: a quarter of the work of opening a page."""
SETTINGS = {**QUIET, "@jupyterlab/docmanager-extension:plugin": {"autosave": False}}
"""Settings of JupyterLab: what a test finds saved, it has saved itself."""
PAGES = {
    **AS_INSTALLED,
    "disabledExtensions": {
        **{f"@jupyterlab/{name}-extension": True for name in UNUSED.split()},
        "@jupyterlab/notebook-extension:export": True,
    },
}


@dataclass
class NotebookServer:
    """A Jupyter server with the extension, its address and its directory."""

    url: str
    root: Path
    process: subprocess.Popen[bytes]

    def client(self) -> httpx.Client:
        """Return a client that is logged in with the server's token."""
        return httpx.Client(
            base_url=f"{self.url}springtide/api/v1/",
            headers={"Authorization": f"token {TOKEN}"},
            timeout=PATIENCE_S,
            verify=False,
        )

    @contextmanager
    def browser(self) -> Iterator[httpx.Client]:
        """Give a client that is logged in by a cookie, as a page is; it has the XSRF cookie."""
        with httpx.Client(base_url=f"{self.url}springtide/api/v1/", timeout=PATIENCE_S, verify=False) as browser:
            browser.get(f"{self.url}login")
            browser.get(f"{self.url}login", params={"token": TOKEN})
            yield browser


def start_server(root: Path, environment: dict[str, str], *, pages: bool = False) -> NotebookServer:
    """Start a Jupyter server with the environment; it has the extension because the wheel is installed.

    With ``pages`` it serves JupyterLab and Notebook as well, with the settings of ``springtide up``, but without
    saving by itself and without the extensions in ``UNUSED``; the stories have all.
    """
    root.mkdir(parents=True, exist_ok=True)
    port = free_port()
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "SPRINGTIDE"))
    }
    places = {"HOME": str(root), "JUPYTER_RUNTIME_DIR": str(root / "runtime"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "jupyter_server", "--allow-root", "--no-browser", f"--port={port}"]
    command += ["--ip=127.0.0.1", "--ServerApp.base_url=/user/susan/", f"--IdentityProvider.token={TOKEN}"]
    if pages:
        command += ["--LabApp.expose_app_in_browser=True"]
        settings = root / ".jupyter" / "labconfig"
        settings.mkdir(parents=True)
        (settings / "default_setting_overrides.json").write_text(json.dumps(SETTINGS))
        (settings / "page_config.json").write_text(json.dumps(PAGES))
    else:
        off = dict.fromkeys(("jupyterlab", "notebook", "jupyter_lsp"), False)
        command += [f"--ServerApp.jpserver_extensions={off}"]
    with (root / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=root, env={**inherited, **places, **environment}, stdout=log, stderr=log
        )
    server = NotebookServer(f"http://127.0.0.1:{port}/user/susan/", root, process)
    deadline = time.monotonic() + PATIENCE_S
    while not answers(server):
        assert process.poll() is None, (root / "server.log").read_text()
        assert time.monotonic() < deadline, (root / "server.log").read_text()
        threading.Event().wait(0.1)
    return server


def answers(server: NotebookServer) -> bool:
    """Return whether the server listens."""
    try:
        return httpx.get(f"{server.url}api", timeout=PATIENCE_S, verify=False).is_success
    except httpx.TransportError:
        return False


def stop(server: NotebookServer) -> None:
    """End the server with its kernels; a thread of it that waits for something does not keep it for ever."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(server.process.pid).children(recursive=True)
        server.process.terminate()
        psutil.wait_procs(children, PATIENCE_S)
    try:
        server.process.wait(LAST_WORK_S)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()
