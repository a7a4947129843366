"""Relays a session of a pod, between its program and the service.

The cluster runs ``python3 -I -S supervisor session DIRECTORY RANK`` beside the worker. Standard input and output
are its only way to the service. Both carry pieces: one byte for the kind, four for the length, the content. The
service sends `REQUEST` first, the line of JSON that `Sessions` reads. The answer is `STARTED`, or the `END` with a
``problem``. Then `INPUT` and `RESIZE` go in, and `OUTPUT` and `ERRORS` come out. The last piece is the `END` with
its ``status``. Each `ALIVE` is answered by one. If none comes for `SILENT` seconds, or the input ends, the service
is gone, and the session ends with this program.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from .records import Names
from .sessions import LONGEST_REQUEST, POD_DIRECTORY, PREFIX

OUTPUT, ERRORS, REQUEST, INPUT, RESIZE, ALIVE, STARTED, END = range(1, 9)
"""Kinds of pieces. The first two are those of `springtide.scheduler.executors.session.Stream`."""
HEAD = struct.Struct(">BI")
SIZE = struct.Struct(">HH")
"""Content of `RESIZE`: rows and columns."""
LONGEST = 1 << 15
"""Maximum size of the content of input and output, in bytes."""
MOST_WAITING = 1 << 16
"""Size of input or output that waits here, in bytes, above which no more is read."""
ANSWERS_WITHIN = 10.0
"""Time for the supervisor to start the program, in seconds."""
SIGNAL_EVERY = 0.5
SILENT = 90.0
"""Time without a piece after which the service counts as gone, in seconds."""
NO_ANSWER = "The supervisor of the job does not answer: its node is very busy."
OVER = "The attempt has ended."

Piece = tuple[int, bytes]


def piece(kind: int, content: bytes = b"") -> bytes:
    """Return a piece as it is sent."""
    return HEAD.pack(kind, len(content)) + content


class Pieces:
    """Takes a stream of bytes apart."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def take(self, data: bytes) -> Iterator[Piece]:
        """Yield the pieces that are complete with these bytes."""
        self._rest += data
        while len(self._rest) >= HEAD.size:
            kind, length = HEAD.unpack_from(self._rest)
            if length > LONGEST_REQUEST:
                raise ValueError(f"a piece of {length} bytes")
            end = HEAD.size + length
            if len(self._rest) < end:
                return
            content = bytes(self._rest[HEAD.size : end])
            del self._rest[:end]
            yield kind, content


class ProblemError(Exception):
    """Why the session cannot be started, as the answer of a supervisor."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer)
        self.answer = answer


def main(directory: str, rank: int) -> int:
    """Relay the session that the first piece asks for, in the attempt of this directory."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    pieces = Pieces()
    first: list[Piece] = []
    while not first:
        data = os.read(0, LONGEST)
        if not data:
            return 0
        first += pieces.take(data)
    request = first[0][1]
    try:
        connection = connected(directory, rank)
        files, rest = started(connection, request)
    except ProblemError as problem:
        send_all(piece(END, json.dumps(problem.answer).encode()))
        return 0
    send_all(piece(STARTED))
    Relay(connection, files, rest, pieces, terminal=json.loads(request)["terminal"] is not None).run(first[1:])
    return 0


def connected(directory: str, rank: int) -> socket.socket:
    """Return a connection from the supervisor of this pod. Raises `ProblemError`."""
    with open(f"{directory}/{Names(rank).record}", "rb") as file:  # noqa: PTH123 - light to start
        supervisor = json.load(file)["pid"]
    with suppress(FileExistsError):
        os.mkdir(POD_DIRECTORY, 0o700)  # noqa: PTH102 - light to start
    path = f"{POD_DIRECTORY}/{PREFIX}{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        try:
            listener.listen(4)
            listener.settimeout(SIGNAL_EVERY)
            due = time.monotonic() + ANSWERS_WITHIN
            while time.monotonic() < due:
                os.kill(supervisor, signal.SIGCHLD)
                try:
                    connection, _ = listener.accept()
                except socket.timeout:  # noqa: UP041 - another class in old interpreters
                    continue
                found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                if struct.unpack("3i", found)[0] == supervisor:
                    return connection
                connection.close()
        except ProcessLookupError:
            raise ProblemError({"problem": OVER}) from None
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - light to start
    raise ProblemError({"problem": NO_ANSWER})


def started(connection: socket.socket, request: bytes) -> tuple[list[int], bytes]:
    """Pass the request on; return the files of the program, and what came after them. Raises `ProblemError`."""
    connection.settimeout(ANSWERS_WITHIN)
    files: list[int] = []
    received = b""
    try:
        connection.sendall(request)
        while b"\n" not in received:
            data, found, _, _ = socket.recv_fds(connection, LONGEST, 4)
            files += found
            if not data:
                raise ProblemError({"problem": OVER})
            received += data
    except (OSError, ValueError) as error:
        raise ProblemError({"problem": NO_ANSWER}) from error
    line, _, rest = received.partition(b"\n")
    answer = json.loads(line)
    if "problem" in answer:
        raise ProblemError(answer)
    return files, rest


def send_all(data: bytes) -> None:
    """Write to standard output."""
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


class Relay:
    """A running session. ``connection`` leads to its supervisor, which has sent ``received`` so far.

    ``files`` are the terminal, or input, output and errors of its program.
    """

    def __init__(
        self,
        connection: socket.socket,
        files: list[int],
        received: bytes,
        pieces: Pieces,
        *,
        terminal: bool,
    ) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._received = received
        self._pieces = pieces
        self._terminal = terminal
        self._input = files[0]
        self._outputs = {files[0]: OUTPUT} if terminal else {files[1]: OUTPUT, files[2]: ERRORS}
        self._to_program = bytearray()
        self._to_service = bytearray()
        self._input_ends = False
        self._ended = False
        self._gone = False
        self._heard_at = time.monotonic()
        for file in (0, 1, *files):
            os.set_blocking(file, False)

    def run(self, first: list[Piece]) -> None:
        """Relay until the program has ended and its output is sent, or the service is gone."""
        for kind, content in first:
            self._take(kind, content)
        while not self._gone:
            self._hear()
            if self._ended and not self._read_outputs():
                self._to_service += piece(END, self._received)
                os.set_blocking(1, True)
                with suppress(OSError):
                    send_all(bytes(self._to_service))
                return
            self._wait()

    def _wait(self) -> None:
        poll = select.poll()
        takes = len(self._to_program) < MOST_WAITING
        poll.register(0, select.POLLIN if takes else 0)
        if self._to_service:
            poll.register(1, select.POLLOUT)
        if not self._ended:
            poll.register(self._connection.fileno(), select.POLLIN)
        wanted: dict[int, int] = {}
        if len(self._to_service) < MOST_WAITING:
            wanted = dict.fromkeys(self._outputs, select.POLLIN)
        if self._to_program:
            wanted[self._input] = wanted.get(self._input, 0) | select.POLLOUT
        for file, events in wanted.items():
            poll.register(file, events)
        ready = dict(poll.poll(SILENT * 1000 / 3))
        if 0 in ready:
            self._read_input(takes=takes)
        elif takes and time.monotonic() - self._heard_at > SILENT:
            self._gone = True
        if 1 in ready:
            self._flush()
        if self._to_program and self._input in ready:
            self._feed()
        self._read_outputs()

    def _read_input(self, *, takes: bool) -> None:
        data = b""
        if takes:
            with suppress(OSError):
                data = os.read(0, LONGEST)
        if not data:
            self._gone = True
        self._heard_at = time.monotonic()
        for kind, content in self._pieces.take(data):
            self._take(kind, content)

    def _take(self, kind: int, content: bytes) -> None:
        if kind == INPUT and not content:
            self._input_ends = not self._terminal
        elif kind == INPUT and self._input >= 0:
            self._to_program += content
        elif kind == RESIZE and self._terminal:
            with suppress(OSError):
                rows, columns = SIZE.unpack(content)
                fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        elif kind == ALIVE:
            self._to_service += piece(ALIVE)
        self._feed()

    def _feed(self) -> None:
        """Give the program its input, which it may not want any more."""
        try:
            while self._to_program and self._input >= 0:
                del self._to_program[: os.write(self._input, self._to_program)]
        except BlockingIOError:
            return
        except OSError:
            self._input_ends = not self._terminal
        self._to_program.clear()
        if self._input_ends and self._input >= 0:
            os.close(self._input)
            self._input = -1

    def _flush(self) -> None:
        try:
            del self._to_service[: os.write(1, self._to_service)]
        except BlockingIOError:
            pass
        except OSError:
            self._gone = True

    def _hear(self) -> None:
        """Read what the supervisor says about the end."""
        if self._ended:
            return
        with suppress(BlockingIOError):
            try:
                data = self._connection.recv(LONGEST)
            except ConnectionError:
                data = b""
            self._received += data
            self._ended = not data or self._received.endswith(b"\n")
            if not self._received.endswith(b"\n") and self._ended:
                self._received = json.dumps({"problem": OVER}).encode()

    def _read_outputs(self) -> bool:
        """Read what the program has written, unless much waits here already; return whether there was any."""
        found = False
        for file, kind in list(self._outputs.items()):
            if len(self._to_service) >= MOST_WAITING:
                return True
            try:
                data = os.read(file, LONGEST)
            except BlockingIOError:
                continue
            except OSError:  # the other side of a terminal is closed
                data = b""
            if data:
                found = True
                self._to_service += piece(kind, data)
            else:
                del self._outputs[file]
        return found
