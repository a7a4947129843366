from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from patience import PATIENCE_S


class Server:
    """A server of raw bytes: answers each connection with the next of its replies, then closes it.

    A reply of None closes the connection without a word. ``requests`` are the bytes that came in.
    """

    def __init__(self, replies: tuple[bytes | None, ...]) -> None:
        self.requests: list[bytes] = []
        self._replies = replies
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/services/springtide"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for reply in self._replies:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.requests.append(_request(connection))
                if reply is not None:
                    connection.sendall(reply)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(PATIENCE_S)


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            while len(body) < int(value):
                body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


class Peers:
    """Starts servers that misbehave on purpose."""

    def __init__(self) -> None:
        self.servers: list[Server] = []

    def start(self, *replies: bytes | None) -> Server:
        self.servers.append(Server(replies))
        return self.servers[-1]

    @staticmethod
    def answer(status: int, body: bytes, *headers: str) -> bytes:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    @staticmethod
    def stream(*pieces: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + b"".join(
            pieces
        )


@pytest.fixture
def peers() -> Iterator[Peers]:
    made = Peers()
    yield made
    for server in made.servers:
        server.close()
