"""A session: one program that a person runs inside an attempt, beside its workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum

import msgspec

from springtide.scheduler.wire.sessions import SessionEnd, TerminalSize

PIECE = 32 * 1024
"""Maximum size of a piece of output, in bytes."""


STACK = "stack.py"
"""The tool that prints the stacks of the processes of a worker."""


class Stream(IntEnum):
    """The output that a piece comes from; a terminal has only one."""

    OUTPUT = 1
    ERRORS = 2


class SessionSpec(msgspec.Struct, frozen=True):
    """The program of a session.

    It gets the environment, working directory, account and limits of the worker ``rank``. An empty ``argv`` is the
    shell of the account. ``terminal`` is the size of its terminal, None for pipes; ``kind`` is the value of
    ``TERM``. With a ``tool``, the program is this one of the supervisor's directory.
    """

    rank: int
    argv: tuple[str, ...] = ()
    terminal: TerminalSize | None = None
    kind: str = "xterm-256color"
    tool: str = ""


class Session(ABC):
    """A running session. Methods are called from one event loop, `read` and `write` each by one task at a time."""

    end: SessionEnd | None = None
    """Its end, once `read` has returned None."""

    @abstractmethod
    async def read(self) -> tuple[Stream, bytes] | None:
        """Return the next piece of output, at most `PIECE` bytes; None after the last one."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Send input, and wait until the program has room for it. No bytes end the input.

        Input that the program does not want any more is dropped.
        """

    @abstractmethod
    async def resize(self, size: TerminalSize) -> None:
        """Set the size of the terminal; do nothing without one."""

    @abstractmethod
    async def close(self) -> None:
        """End the session and its processes. Idempotent."""
