"""Sessions: programs that a person runs inside a running job, and the frames of their WebSocket.

``POST /jobs/{id}/sessions`` starts one, ``GET /sessions/{id}`` is its WebSocket. Each message is binary: one byte,
the `Channel`, and the content. Neither side sends more than `WINDOW` bytes of input or output before the other has
confirmed with `Channel.TAKEN` that it has taken them, so that a slow reader holds up the program and nothing else.
Each side sends something every `BEAT_S`, if only that it has taken 0 bytes, so that a lost connection is noticed:
a proxy would answer a ping.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Final

from msgspec import Meta

from springtide.scheduler.wire.shapes import Answer, Request

SUBPROTOCOL: Final = "session.springtide.v1"
"""Subprotocol of the WebSocket."""
WINDOW: Final = 256 * 1024
"""Maximum number of unconfirmed bytes in each direction."""
MAX_FRAME: Final = 32 * 1024
"""Maximum size of a message's content, in bytes."""
BEAT_S: Final = 15.0
"""Maximum interval between two messages, in seconds."""
SILENCE_S: Final = 60.0
"""Time without a message after which the connection counts as lost, in seconds."""
MAX_WORDS: Final = 1000
"""Maximum number of words of a command."""
MAX_WORD: Final = 32 * 1024
"""Maximum length of a word of a command, in characters."""

NOT_STARTED: Final[Mapping[int, str]] = {127: "no_program", 126: "not_executable"}
"""Codes of the refusals of programs that are not there or cannot be run, by the exit code that shells have."""

CommandWord = Annotated[str, Meta(max_length=MAX_WORD, pattern=r"^[^\x00]*$")]
Extent = Annotated[int, Meta(ge=1, le=4096)]


class Channel(IntEnum):
    """The first byte of each message."""

    INPUT = 0
    """Input of the program; no bytes end it."""
    OUTPUT = 1
    """Output of the program, or of its terminal."""
    ERRORS = 2
    """Its error output, if it has no terminal."""
    END = 3
    """The end of the session, as `SessionEnd` in JSON; the last message."""
    SIZE = 4
    """A new size of the terminal, as `TerminalSize` in JSON."""
    TAKEN = 5
    """A number of bytes of input or output that the sender has taken, in decimal digits."""


class TerminalSize(Request, frozen=True, kw_only=True):
    """The size of a terminal, in characters."""

    columns: Extent
    rows: Extent


class SessionRequest(Request, frozen=True, kw_only=True):
    """The program of a session in the worker ``rank`` of a job.

    An empty ``argv`` is the shell of the job's account. ``terminal`` is the size of its terminal, ``kind`` the
    value of ``TERM`` there; without one it has pipes.
    """

    argv: Annotated[list[CommandWord], Meta(max_length=MAX_WORDS)] = []
    rank: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    terminal: TerminalSize | None = None
    kind: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._+-]{1,64}$")] = "xterm-256color"


class SessionOpened(Answer, frozen=True, kw_only=True):
    """A session that was started. ``id`` is the last part of the address of its WebSocket."""

    id: str


class WorkerStack(Answer, frozen=True, kw_only=True):
    """Where a worker is now: ``text`` has the stacks of its processes, or ``problem`` says why there are none."""

    rank: int
    text: str = ""
    problem: str = ""


class JobStack(Answer, frozen=True, kw_only=True):
    """Where all workers of a running job are, at the time ``at``. ``more`` workers are not shown."""

    at: float
    workers: list[WorkerStack]
    more: int = 0


ATTEMPT_OVER: Final = "The attempt has ended."
"""The reason of an end with the attempt of the job: what becomes of the job is known soon after."""


class SessionEnd(Answer, frozen=True, kw_only=True):
    """The end of a session: ``code`` is its exit code as a shell has it; without one, ``reason`` says why."""

    code: int | None = None
    reason: str = ""
