"""A person's notebook server of a real hub and a kernel on it, used as a page does: through the hub's proxy."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable
from typing import Any, Self

import httpx
import websocket

PATIENCE_S = 300


class KernelNotebook:
    """A notebook server of a user, through the proxy, with one kernel. ``token`` is of the user, for the hub."""

    def __init__(self, url: str, user: str, token: str) -> None:
        self._user = user
        self._authorization = f"Authorization: token {token}"
        headers = {"Authorization": f"token {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S, trust_env=False, verify=False)
        self._kernel = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def is_running(self) -> bool:
        """Return whether the server answers."""
        model = self._http.get(f"/hub/api/users/{self._user}").raise_for_status().json()
        return bool(model["servers"].get("", {}).get("ready"))

    def start(self, gpus: int) -> None:
        """Start the server as the page does, and wait until it answers; AssertionError has the page's content."""
        server = f"/hub/api/users/{self._user}/server"
        started = self._http.post(server, json={"gpus": gpus})
        assert started.status_code in {201, 202}, started.text
        with self._http.stream("GET", f"{server}/progress") as answer:
            told = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
        shown = [json.loads(each) for each in told]
        assert shown, "the pending page shows nothing"
        assert shown[-1].get("ready"), shown
        self.start_kernel()

    def start_kernel(self) -> None:
        """Start a kernel on the server, which is running."""
        made = self._http.post(f"/user/{self._user}/api/kernels", json={})
        self._kernel = str(made.raise_for_status().json()["id"])

    def restart_kernel(self) -> None:
        """Restart the kernel: all its variables are gone."""
        self._http.post(f"/user/{self._user}/api/kernels/{self._kernel}/restart").raise_for_status()

    def stop_kernel(self) -> None:
        """End the kernel."""
        self._http.delete(f"/user/{self._user}/api/kernels/{self._kernel}").raise_for_status()

    def run(self, code: str) -> str:
        """Run a cell to completion and return its output; raise AssertionError with its error if it fails."""
        with contextlib.closing(self._channel(f"kernels/{self._kernel}/channels")) as channels:
            return _printed(channels.recv, _send(channels, code))

    def begin(self, code: str) -> None:
        """Begin to run a cell, and close the connection to the kernel once it is busy."""
        with contextlib.closing(self._channel(f"kernels/{self._kernel}/channels")) as channels:
            request = _send(channels, code)
            while not _is_busy_with(json.loads(channels.recv()), request):
                continue

    def type_into_terminal(self, text: str, answer: str) -> None:
        """Open a terminal, type a text, and close the connection once it shows the answer."""
        name = self._http.post(f"/user/{self._user}/api/terminals").raise_for_status().json()["name"]
        with contextlib.closing(self._channel(f"../terminals/websocket/{name}")) as terminal:
            terminal.send(json.dumps(["stdin", text]))
            shown = ""
            while answer not in shown:
                kind, *content = json.loads(terminal.recv())
                shown += content[0] if kind == "stdout" else ""

    def _channel(self, path: str) -> websocket.WebSocket:
        base = str(self._http.base_url).rstrip("/").replace("http", "ws", 1)
        address = f"{base}/user/{self._user}/api/{path}".replace("/api/../", "/")
        return websocket.create_connection(address, timeout=PATIENCE_S, header=[self._authorization])

    def stop(self) -> None:
        """Stop the server."""
        self._http.delete(f"/hub/api/users/{self._user}/server").raise_for_status()


def _send(channels: websocket.WebSocket, code: str) -> str:
    """Send a cell to a kernel; return the id of the request."""
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.4", "username": ""}
    header["session"] = uuid.uuid4().hex
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    channels.send(
        json.dumps({"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content})
    )
    return header["msg_id"]


def _is_busy_with(message: dict[str, Any], request: str) -> bool:
    about = message["parent_header"].get("msg_id") == request
    return about and message["msg_type"] == "status" and message["content"]["execution_state"] == "busy"


def _printed(receive: Callable[[], str | bytes], request: str) -> str:
    printed, failed = "", ""
    while True:
        message = json.loads(receive())
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        if message["msg_type"] == "stream":
            printed += content["text"]
        elif message["msg_type"] == "error":
            failed = "\n".join(content["traceback"])
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            assert not failed, printed + failed
            return printed
