"""A person's notebook server of a real hub and a kernel on it, used as a page does: through the hub's proxy."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable
from typing import Self

import httpx
import websocket

PATIENCE_S = 300


class KernelNotebook:
    """A notebook server of a user, through the proxy, with one kernel. ``token`` is of the user, for the hub."""

    def __init__(self, url: str, user: str, token: str) -> None:
        self._user = user
        self._authorization = f"Authorization: token {token}"
        headers = {"Authorization": f"token {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S, trust_env=False)
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
        base = str(self._http.base_url).rstrip("/").replace("http", "ws", 1)
        address = f"{base}/user/{self._user}/api/kernels/{self._kernel}/channels"
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.4", "username": ""}
        header["session"] = uuid.uuid4().hex
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        request = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content}
        with contextlib.closing(
            websocket.create_connection(address, timeout=PATIENCE_S, header=[self._authorization])
        ) as channels:
            channels.send(json.dumps(request))
            return _printed(channels.recv, header["msg_id"])

    def stop(self) -> None:
        """Stop the server."""
        self._http.delete(f"/hub/api/users/{self._user}/server").raise_for_status()


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
