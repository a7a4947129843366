"""The watch behind the judge of days on a cluster passes on each event once, however connections end."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cluster_day.watching import Watch
from clusters.cluster import Cluster
from patience import PATIENCE_S


class Api(ThreadingHTTPServer):
    """Serves one pod, and watches that send the event after the version asked for; the first one is reset."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[int] = []
        self.seen = Event()

    def client(self, timeout: httpx.Timeout) -> httpx.Client:
        """Return a client, as a cluster does."""
        return httpx.Client(base_url=f"http://127.0.0.1:{self.server_port}", timeout=timeout, trust_env=False)


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        self.send_response(200)
        self.end_headers()
        if "watch" not in query:
            self._send({"metadata": {"resourceVersion": "1"}, "items": []})
            return
        version = int(query["resourceVersion"][0])
        self.server.asked.append(version)
        self._send({"type": "ADDED", "object": pod(version + 1)})
        if len(self.server.asked) == 1:
            self.server.seen.wait(PATIENCE_S)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())

    def _send(self, body: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(body).encode() + b"\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
        """Print nothing."""


def pod(version: int) -> dict[str, Any]:
    return {"metadata": {"uid": f"pod-{version}", "resourceVersion": str(version)}}


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    serving = Thread(target=api.serve_forever)
    serving.start()
    yield api
    api.shutdown()
    api.server_close()
    serving.join()


def test_events_before_a_reset_of_the_connection_are_not_passed_on_again(api: Api) -> None:
    passed: list[str] = []
    enough = Event()

    def seen(_kind: str, found: dict[str, Any], _missed: bool) -> None:
        passed.append(found["metadata"]["uid"])
        api.seen.set()
        if len(passed) == 3:
            enough.set()

    watch = Watch(cast("Cluster", api), "/pods", seen, lambda: None)
    with watch.running():
        assert enough.wait(PATIENCE_S)
    assert passed[:3] == ["pod-2", "pod-3", "pod-4"]
    assert api.asked[:3] == [1, 2, 3]
