"""Sessions in attempts of this machine, which their supervisors start."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import socket
import struct
import sys
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files.layout import opened
from springtide.scheduler.executors.local.running import PROGRAM
from springtide.scheduler.executors.session import PIECE, Session, SessionSpec, Stream
from springtide.scheduler.executors.session_requests import end_of, refused, request_of
from springtide.scheduler.executors.supervisor.sessions import PREFIX
from springtide.scheduler.wire.sessions import ATTEMPT_OVER, SessionEnd, TerminalSize

ANSWERS_WITHIN = 10.0
"""Time for a supervisor to start the program of a session, in seconds."""
SIGNAL_EVERY = 0.5
"""Interval at which a silent supervisor is woken again, and found to have ended, in seconds."""
CREDENTIALS = struct.Struct("3i")
LONGEST_ANSWER = 64 * 1024
SILENT = (
    "The supervisor of the job does not answer: the machine is very busy, or the job was started by an earlier "
    "version of Springtide."
)


async def open_session(
    directory: Path, supervisor: int, wake_supervisor: Callable[[], bool], spec: SessionSpec
) -> LocalSession:
    """Have the supervisor with this pid, of the attempt in ``directory``, start a session.

    Raises `ExecutorError`, and `OSError` if the directory cannot be written to.
    """
    request = request_of(spec, [sys.executable, "-I", "-S", str(PROGRAM / spec.tool)])
    connection = await _connected(directory, supervisor, wake_supervisor)
    try:
        async with asyncio.timeout(ANSWERS_WITHIN):
            files, received = await _start(connection, request)
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError | OSError):
            raise ExecutorError(SILENT) from error
        raise
    return LocalSession(connection, files, received, terminal=spec.terminal is not None)


async def _connected(directory: Path, supervisor: int, wake_supervisor: Callable[[], bool]) -> socket.socket:
    """Return a connection from the supervisor and from no other process."""
    name = f"{PREFIX}{secrets.token_hex(8)}"
    with opened(directory) as handle, socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        listener.bind(f"/proc/self/fd/{handle}/{name}")  # the path of a socket has at most 107 bytes
        accepting = asyncio.ensure_future(_accepted(listener, supervisor))
        try:
            os.chmod(name, 0o600, dir_fd=handle)
            listener.listen(4)
            for _ in range(round(ANSWERS_WITHIN / SIGNAL_EVERY)):
                if not wake_supervisor():
                    raise ExecutorError(ATTEMPT_OVER)
                await asyncio.wait({accepting}, timeout=SIGNAL_EVERY)
                if accepting.done():
                    return accepting.result()
            raise ExecutorError(SILENT)
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=handle)


async def _accepted(listener: socket.socket, supervisor: int) -> socket.socket:
    """Accept the connection of the process with this pid."""
    while True:
        connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        if _pid_of(connection) == supervisor:
            connection.setblocking(False)
            return connection
        connection.close()


def _pid_of(connection: socket.socket) -> int:
    """Return the pid of the process at the other end."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(found)[0])


async def _start(connection: socket.socket, request: bytes) -> tuple[Sequence[int], bytes]:
    """Send the request; return the files of the program, and what the supervisor has sent after them.

    Raises `ExecutorError` if it cannot be started.
    """
    await asyncio.get_running_loop().sock_sendall(connection, request)
    files: list[int] = []
    received = b""
    while b"\n" not in received:
        await _ready([connection.fileno()], [], asyncio.get_running_loop().create_future())
        with suppress(BlockingIOError):
            data, found, _, _ = socket.recv_fds(connection, LONGEST_ANSWER, 4)
            files += found
            if not data:
                raise ExecutorError(ATTEMPT_OVER)
            received += data
    first, _, rest = received.partition(b"\n")
    if (problem := refused(json.loads(first))) is not None:
        raise problem
    return files, rest


class LocalSession(Session):
    """A session on this machine.

    ``connection`` leads to its supervisor, which has sent ``received`` so far; ``files`` are the terminal, or
    input, output and errors of its program.
    """

    def __init__(
        self, connection: socket.socket, files: Sequence[int], received: bytes, *, terminal: bool
    ) -> None:
        self.end = None
        self._connection = connection
        self._received = received
        self._terminal = files[0] if terminal else None
        self._input: int | None = files[0]
        self._outputs = {Stream.OUTPUT: files[0]} if terminal else dict(zip(Stream, files[1:], strict=True))
        self._files = set(files)
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False
        for file in files:
            os.set_blocking(file, False)

    async def read(self) -> tuple[Stream, bytes] | None:
        """See `Session`. What the program wrote before its end is read first."""
        while not self._closed:
            self._hear()
            over = self.end is not None
            for stream, file in list(self._outputs.items()):
                try:
                    data = os.read(file, PIECE)
                except BlockingIOError:
                    continue
                except OSError:  # the other side of a terminal is closed
                    data = b""
                if data:
                    self._outputs[stream] = self._outputs.pop(stream)  # the other one comes first next time
                    return stream, data
                del self._outputs[stream]
            if over:
                return None
            await self._wait([self._connection.fileno(), *self._outputs.values()], [])
        self.end = self.end or SessionEnd(reason=ATTEMPT_OVER)
        return None

    def _hear(self) -> None:
        """Read what the supervisor says about the end."""
        if self.end is not None:
            return
        with suppress(BlockingIOError):
            try:
                data = self._connection.recv(LONGEST_ANSWER)
            except ConnectionError:
                data = b""
            self._received += data
            if not data and not self._received.endswith(b"\n"):
                self.end = SessionEnd(reason=ATTEMPT_OVER)
        if self._received.endswith(b"\n"):
            self.end = end_of(json.loads(self._received))

    async def write(self, data: bytes) -> None:
        """See `Session`."""
        if not data and self._terminal is None:
            self._end_input()
        left = memoryview(data)
        while left and self._input is not None:
            try:
                left = left[os.write(self._input, left) :]
            except BlockingIOError:
                await self._wait([], [self._input])
            except OSError:
                return

    def _end_input(self) -> None:
        if self._input is not None:
            self._files.discard(self._input)
            os.close(self._input)
            self._input = None

    async def resize(self, size: TerminalSize) -> None:
        """See `Session`."""
        if self._terminal is not None and not self._closed:
            with suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))

    async def close(self) -> None:
        """See `Session`. The supervisor ends the processes once the connection is closed."""
        if self._closed:
            return
        self._closed = True
        self._input = None
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        await asyncio.sleep(0)  # those who wait take their files out of the loop
        for file in self._files:
            os.close(file)
        self._connection.close()

    async def _wait(self, readable: Sequence[int], writable: Sequence[int]) -> None:
        """Wait until one of the files can be read from or written to, or the session is closed."""
        ready = asyncio.get_running_loop().create_future()
        self._waiting.add(ready)
        try:
            await _ready(readable, writable, ready)
        finally:
            self._waiting.discard(ready)


async def _ready(readable: Sequence[int], writable: Sequence[int], ready: asyncio.Future[None]) -> None:
    """Wait until one of the files can be read from or written to, or ``ready`` is set."""
    loop = asyncio.get_running_loop()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    for file in readable:
        loop.add_reader(file, set_ready)
    for file in writable:
        loop.add_writer(file, set_ready)
    try:
        await ready
    finally:
        for file in readable:
            loop.remove_reader(file)
        for file in writable:
            loop.remove_writer(file)
