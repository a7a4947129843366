"""A gRPC server on a Unix socket, for tests that play the kubelet or a device plugin; messages are bytes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import h2.config
import h2.connection
import h2.events
import h2.exceptions

Method: TypeAlias = Callable[[bytes], Iterator[bytes]]
"""Answers a request with messages, one after the other."""


def field(number: int, value: bytes | str | int) -> bytes:
    """Return a field of a message of protocol buffers."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


@contextlib.contextmanager
def grpc_server(path: Path, methods: Mapping[str, Method]) -> Iterator[None]:
    """Serve methods, by paths such as ``/v1.PodResourcesLister/List``, on the socket ``path`` within the block."""
    with socket.socket(socket.AF_UNIX) as listening:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        listening.listen()
        connections: list[_Connection] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connections.append(_Connection(listening.accept()[0], methods))

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in connections:
                each.close()
            path.unlink(missing_ok=True)


class _Connection:
    """One client; each of its calls has a thread."""

    def __init__(self, to: socket.socket, methods: Mapping[str, Method]) -> None:
        self._socket = to
        self._methods = methods
        self._lock = threading.Lock()
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self._calls: dict[int, tuple[str, bytearray]] = {}
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            with self._lock:
                self._http.initiate_connection()
                self._socket.sendall(self._http.data_to_send())
            while data := self._socket.recv(65536):
                with self._lock:
                    events = self._http.receive_data(data)
                    for event in events:
                        self._take_in(event)
                    self._socket.sendall(self._http.data_to_send())

    def _take_in(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            headers = dict(event.headers)
            self._calls[event.stream_id] = headers[b":path"].decode(), bytearray()
        elif isinstance(event, h2.events.DataReceived):
            self._calls[event.stream_id][1].extend(event.data)
            self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            path, body = self._calls.pop(event.stream_id)
            call = threading.Thread(
                target=self._answer, args=(event.stream_id, path, bytes(body[5:])), daemon=True
            )
            call.start()

    def _answer(self, stream: int, path: str, request: bytes) -> None:
        with contextlib.suppress(OSError, h2.exceptions.ProtocolError):
            if path not in self._methods:
                status = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "12")]
                self._send(lambda: self._http.send_headers(stream, status, end_stream=True))
                return
            headers = [(":status", "200"), ("content-type", "application/grpc")]
            self._send(lambda: self._http.send_headers(stream, headers))
            for message in self._methods[path](request):
                data = b"\0" + len(message).to_bytes(4, "big") + message
                for at in range(0, len(data), 16384):
                    self._send(partial(self._http.send_data, stream, data[at : at + 16384]))
            self._send(lambda: self._http.send_headers(stream, [("grpc-status", "0")], end_stream=True))

    def _send(self, add: Callable[[], None]) -> None:
        with self._lock:
            add()
            self._socket.sendall(self._http.data_to_send())
