"""Sessions: programs that the job's user runs beside the workers of an attempt, at the service's request.

The service listens on a socket ``session.<id>`` in the attempt's directory and signals the supervisor, which
connects to it. The service sends one line of JSON: ``rank``, ``argv``, ``terminal`` (rows and columns, or null),
``variables``. The answer is one line, either ``problem``, with the exit ``code`` of shells if the program cannot
be run, or ``started`` together with the service's ends of
terminal or pipes, so no output passes through the supervisor. A second line has the ``status`` of the end.
The session ends when the service closes the connection, or when all workers have ended.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .table import Process, descendants, send
from .worker import NO_INTERPRETER, Streams, shown

PREFIX = "session."
"""Beginning of the names of sockets that the service listens on for sessions."""
POD_DIRECTORY = "/dev/shm/.springtide"  # noqa: S108 - each pod has one of its own
"""Directory with the sockets of sessions in a pod, whose workers' other directories are on a shared volume."""
MARK = "SPRINGTIDE_SESSION"
"""Variable of all processes of sessions."""
LONGEST_REQUEST = 1 << 20
"""Maximum size of a request, in bytes."""
MOST = 64
"""Maximum number of sessions of an attempt at a time."""
KILL_AFTER = 3.0
"""Time between SIGHUP and SIGKILL for the processes of a closed session, in seconds."""
NO_PROGRAM, NOT_EXECUTABLE = 127, 126
"""Exit codes of shells for a program that is not there, and for one that cannot be run."""
SHELLS = ("/bin/bash", "/bin/sh")
NO_SHELLS = frozenset({"nologin", "false", "true", "sync"})

Fork = Callable[["list[str]", "dict[str, str]", Streams], "tuple[int, int]"]
"""Starts a program as workers are started; returns its pid, and a pipe for the reason if that fails."""


class Session:
    """One session: its ``connection`` to the service, and the ``pid`` of its program once that is started.

    Until the program runs or has failed to, ``trouble`` is the pipe for the reason of a failure, and ``files`` are
    the service's ends of terminal or pipes. A directory on a dead file server may keep it from either.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.received = b""
        self.pid: int | None = None
        self.program = ""
        self.trouble: int | None = None
        self.files: tuple[int, ...] = ()
        self.kill_at: float | None = None
        self.closed = False


class Sessions:
    """The sessions of an attempt. ``environment`` returns that of a worker by rank, None if it does not run."""

    def __init__(self, poll: select.poll, fork: Fork, environment: Callable[[int], dict[str, str] | None]) -> None:
        self._poll = poll
        self._fork = fork
        self._environment = environment
        self._by_file: dict[int, Session] = {}
        self._by_pid: dict[int, Session] = {}
        self._any = False

    @property
    def due(self) -> float | None:
        """When processes of closed sessions are to be killed, on the monotonic clock."""
        return min((each.kill_at for each in self._by_pid.values() if each.kill_at is not None), default=None)

    def connect(self, directory: str) -> None:
        """Connect to the sockets of new requests in the attempt's directory, and remove them."""
        try:
            names = [name for name in os.listdir(directory) if name.startswith(PREFIX)]  # noqa: PTH208
            handle = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC) if names else -1
        except OSError:
            return
        for name in names:
            self._connect(handle, name)
        if names:
            os.close(handle)

    def _connect(self, directory: int, name: str) -> None:
        import socket  # noqa: PLC0415 - light to start

        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{name}")
        except OSError:  # the listener is gone
            connection.close()
        else:
            connection.setblocking(False)
            self._by_file[connection.fileno()] = Session(connection)
            self._poll.register(connection.fileno(), select.POLLIN)
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)

    def heard(self, file: int) -> bool:
        """Read from the connection of a session; return False if the file is none."""
        session = self._by_file.get(file)
        if session is None:
            waiting = next((each for each in self._by_pid.values() if each.trouble == file), None)
            if waiting is not None:
                self._settle(waiting)
            return waiting is not None
        try:
            data = session.connection.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        session.received += data
        if not data or len(session.received) > LONGEST_REQUEST:
            self._disconnect(session)
            self._hang_up(session)
        elif session.pid is None and session.received.endswith(b"\n"):
            self._start(session)
        return True

    def _start(self, session: Session) -> None:
        request = json.loads(session.received)
        if len(self._by_file) > MOST:
            self._refuse(session, f"The job has {MOST} terminals and commands already, the most that it may.")
            return
        base = self._environment(request["rank"])
        if base is None:
            self._refuse(session, f"Worker {request['rank']} of the job does not run.")
            return
        environment = {**base, **request["variables"], MARK: "1"}
        try:
            ours, streams = open_streams(request["terminal"])
        except OSError as error:
            self._refuse(session, f"No terminal can be opened: {error.strerror}.")
            return
        argv = request["argv"] or [shell(environment)]
        pid, trouble = self._fork(argv, environment, streams)
        for file in {streams.input, streams.output, streams.errors}:
            os.close(file)
        self._any = True
        session.pid, session.program, session.trouble, session.files = pid, argv[0], trouble, ours
        self._by_pid[pid] = session
        self._poll.register(trouble, select.POLLIN)

    def _settle(self, session: Session) -> None:
        """Answer whether the program runs, once that is known."""
        assert session.trouble is not None
        said = os.read(session.trouble, 4096).decode(errors="replace")
        self._poll.unregister(session.trouble)
        os.close(session.trouble)
        session.trouble = None
        if said:
            self._refuse(session, *problem(session.program, *said.split("\n", 1)))
        else:
            self._answer(session, {"started": True}, session.files)
        for file in session.files:
            os.close(file)

    def _refuse(self, session: Session, why: str, code: int | None = None) -> None:
        self._answer(session, {"problem": why, "code": code})
        self._disconnect(session)

    def _answer(self, session: Session, answer: dict[str, Any], files: tuple[int, ...] = ()) -> None:
        import socket  # noqa: PLC0415 - as above

        if session.closed:
            return
        line = json.dumps(answer).encode() + b"\n"
        try:
            socket.send_fds(session.connection, [line], files)
        except OSError:
            self._disconnect(session)
            self._hang_up(session)

    def _disconnect(self, session: Session) -> None:
        if not session.closed:
            session.closed = True
            file = session.connection.fileno()
            self._poll.unregister(file)
            del self._by_file[file]
            session.connection.close()

    def _hang_up(self, session: Session) -> None:
        """Ask the processes in the session of a program to end."""
        if session.pid in self._by_pid and session.kill_at is None:
            session.kill_at = time.monotonic() + KILL_AFTER
            for process in self._processes(session):
                send(process, signal.SIGHUP)
                send(process, signal.SIGCONT)

    def _processes(self, session: Session) -> list[Process]:
        return [each for each in descendants(os.getpid()) if each.session == session.pid]

    def kill_if_due(self) -> None:
        """Kill the processes of closed sessions that have not ended by themselves."""
        now = time.monotonic()
        for session in list(self._by_pid.values()):
            if session.kill_at is not None and now >= session.kill_at:
                session.kill_at = now + KILL_AFTER
                for process in self._processes(session):
                    send(process, signal.SIGKILL)

    def ended(self, pid: int, status: int) -> bool:
        """Report the end of a session's program; return False if the process is none."""
        session = self._by_pid.pop(pid, None)
        if session is None:
            return False
        if session.trouble is not None:
            self._settle(session)
        self._answer(session, {"status": os.waitstatus_to_exitcode(status)})
        self._disconnect(session)
        return True

    def kill_all(self) -> None:
        """Kill every process of every session: the attempt has ended."""
        if not self._any:
            return
        sessions = set(self._by_pid)
        for process in descendants(os.getpid()):
            if process.session in sessions or is_marked(process.pid):
                send(process, signal.SIGKILL)


def problem(program: str, stage: str, why: str) -> tuple[str, int | None]:
    """Return why a program could not be started, as a sentence, and the exit code that a shell has then."""
    if stage != "program":
        return f"It cannot be started ({stage}): {why}.", None
    if why != os.strerror(errno.ENOENT):
        return f"The program {shown(program)} cannot be run: {why}.", NOT_EXECUTABLE
    if program.startswith("/") and os.path.lexists(program):
        return f"The program {shown(program)} cannot be run: {NO_INTERPRETER}.", NOT_EXECUTABLE
    place = "where the job runs" if "/" in program else "on the PATH of the job"
    return f"There is no program {shown(program)} {place}.", NO_PROGRAM


def is_marked(pid: int) -> bool:
    """Return whether a process was started with the mark of sessions."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - light to start
            return f"{MARK}=".encode() in {line[: len(MARK) + 1] for line in file.read(1 << 20).split(b"\0")}
    except OSError:
        return False


def open_streams(terminal: list[int] | None) -> tuple[tuple[int, ...], Streams]:
    """Open a terminal of this size, or pipes; return the service's ends and the program's. Raises OSError."""
    if terminal is None:
        (its_input, to_input), (output, its_output), (errors, its_errors) = (
            os.pipe2(os.O_CLOEXEC),
            os.pipe2(os.O_CLOEXEC),
            os.pipe2(os.O_CLOEXEC),
        )
        return (to_input, output, errors), Streams(its_input, its_output, its_errors)
    ours, its = os.openpty()
    rows, columns = terminal
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return (ours,), Streams(its, its, its, terminal=True)


def named_prompt(environment: dict[str, str], uid: int) -> dict[str, str]:
    """Return the variable by which the prompt of bash names the user of an account without an entry of its own.

    Bash itself would say "I have no name!".
    """
    import pwd  # noqa: PLC0415 - only sessions need it

    try:
        pwd.getpwuid(uid)
    except KeyError:
        if "PROMPT_COMMAND" not in environment:
            return {"PROMPT_COMMAND": r"PS1=${PS1//\\u/${USER:-user}}; unset PROMPT_COMMAND"}
    return {}


def shell(environment: dict[str, str]) -> str:
    """Return the shell of the account: that of its variables if it is one, else the first that is there."""
    own = environment.get("SHELL", "")
    candidates = (own, *SHELLS) if os.path.basename(own) not in NO_SHELLS else SHELLS  # noqa: PTH119
    return next((path for path in candidates if path.startswith("/") and os.access(path, os.X_OK)), SHELLS[-1])
