"""The client's end of a session in a job: input, output and the size of the terminal over one WebSocket."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from springtide.scheduler.client.errors import Unreachable
from springtide.scheduler.client.transport import is_loopback
from springtide.scheduler.wire.sessions import (
    BEAT_S,
    MAX_FRAME,
    SILENCE_S,
    SUBPROTOCOL,
    WINDOW,
    Channel,
    SessionEnd,
    TerminalSize,
)

LOST: Final = "The connection to the job is lost. What ran in it has ended; the job itself continues."
ODD: Final = "The pool sent a message that sessions do not have."


class SessionConnection:
    """A connected session. One thread calls `receive` and `confirm`, another one `send`, `resize` and `beat`.

    ``end`` is the end of the program, once `receive` has returned None.
    """

    def __init__(self, address: str, token: str | None, timeout: float) -> None:
        """Connect to the WebSocket at the address of the pool. Raises `Unreachable`."""
        import websocket  # noqa: PLC0415 - only sessions need it

        self.end = SessionEnd(reason=LOST)
        self._room = WINDOW
        self._changed = threading.Condition()
        self._over = False
        self._errors = (websocket.WebSocketException, OSError)
        self._binary = websocket.ABNF.OPCODE_BINARY
        try:
            self._socket: Any = websocket.create_connection(
                websocket_url(address),
                timeout=timeout,
                header={} if token is None else {"Authorization": f"token {token}"},
                subprotocols=[SUBPROTOCOL],
                suppress_origin=True,
                enable_multithread=True,
                http_no_proxy=["*"] if is_loopback(address) else None,
            )
        except self._errors as error:
            raise Unreachable(
                f"The job cannot be connected to ({error}). A proxy before the pool may refuse WebSockets."
            ) from error
        self._socket.settimeout(SILENCE_S)

    def receive(self) -> tuple[Channel, bytes] | None:
        """Return the next piece of output and its channel; None at the end."""
        while not self._over:
            try:
                opcode, message = self._socket.recv_data()
                if opcode != self._binary or not message:
                    break
                channel, content = Channel(message[0]), message[1:]
                if channel in {Channel.OUTPUT, Channel.ERRORS}:
                    return channel, content
                self._hear(channel, content)
            except (ValueError, msgspec.DecodeError):
                self.end = SessionEnd(reason=ODD)
                break
            except self._errors:
                break
        self.close()
        return None

    def _hear(self, channel: Channel, content: bytes) -> None:
        if channel is Channel.END:
            self.end = msgspec.json.decode(content, type=SessionEnd)
            self._over = True
        elif channel is Channel.TAKEN:
            with self._changed:
                self._room += int(content)
                self._changed.notify_all()

    def confirm(self, size: int) -> None:
        """Say that this number of bytes of output has been taken, so that more is sent."""
        self._send(Channel.TAKEN, b"%d" % size)

    def send(self, data: bytes) -> None:
        """Send input, and wait while the program has not taken earlier input. No bytes end the input."""
        for start in range(0, len(data) or 1, MAX_FRAME):
            piece = data[start : start + MAX_FRAME]
            with self._changed:
                while self._room < len(piece) and not self._over:
                    if not self._changed.wait(BEAT_S):
                        self.beat()
                self._room -= len(piece)
            self._send(Channel.INPUT, piece)

    def beat(self) -> None:
        """Show that this client is there, which it has to do every `BEAT_S`."""
        self.confirm(0)

    def resize(self, size: TerminalSize) -> None:
        """Set the size of the terminal."""
        self._send(Channel.SIZE, msgspec.json.encode(size))

    def _send(self, channel: Channel, content: bytes) -> None:
        with suppress(*self._errors):  # `receive` finds a lost connection
            self._socket.send_binary(bytes([channel]) + content)

    def close(self) -> None:
        """Close the connection, which ends the program. Idempotent."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        with suppress(*self._errors):
            self._socket.shutdown()


def websocket_url(address: str) -> str:
    """Return an address of the pool with the scheme of WebSockets."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(scheme={"https": "wss"}.get(parts.scheme, "ws")))
