"""Terminals in running jobs: terminals of this notebook server whose program is ``springtide exec``.

They are shown, restored after a reload, and ended like every other terminal of the server.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from springtide.scheduler.wire import Problem
from springtide.widgets.server_extension.pool_gate import GateError

COMMAND: Final = "springtide"
NUMBER: Final = "--number"
TITLE: Final = re.compile(r"\x1b\]0;[^\x07]*\x07")
"""The sequence by which the program names the terminal after its job."""
NO_TERMINALS: Final = Problem(
    status=409,
    code="no_terminals",
    message="Terminals are switched off on this notebook server.",
    hint="`springtide exec JOB` opens one from a terminal elsewhere.",
)


class TerminalRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A terminal in the worker ``rank`` of a job."""

    job: Annotated[str, Meta(pattern=r"^[A-Za-z0-9]{1,64}$")]
    rank: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class TerminalOpened(msgspec.Struct, frozen=True):
    """A terminal of this notebook server, by its name there."""

    name: str


def program(request: TerminalRequest, number: int = 1) -> Sequence[str]:
    """Return the command line of the terminal with this number in a job."""
    words = (sys.executable, "-m", COMMAND, "exec", "--stay", NUMBER, str(number))
    return (*words, "--rank", str(request.rank), request.job)


def free_number(job: str, commands: Iterable[Sequence[str]]) -> int:
    """Return the lowest number that no terminal of the job has; ``commands`` are those of all terminals."""
    own = [list(command) for command in commands if NUMBER in command and command[-1] == job]
    taken = {command[command.index(NUMBER) + 1] for command in own}
    return next(number for number in count(1) if str(number) not in taken)


class Shown(deque[str]):
    """The last pieces of output of a job's terminal, for pages that open it again.

    The title of the terminal leads a copy, also once the output has pushed it out.
    """

    title = ""
    _before = ""

    def append(self, piece: str) -> None:
        """Add a piece of output."""
        super().append(piece)
        if not self.title:
            found = TITLE.search(self._before + piece)
            self.title, self._before = (found[0], "") if found else ("", piece)

    def copy(self) -> Shown:
        """Return what a page shows that opens the terminal."""
        return Shown([self.title, *self])


def open_terminal(body: bytes, settings: Mapping[str, Any]) -> TerminalOpened:
    """Open a terminal in a job. Raises `GateError`."""
    try:
        request = msgspec.json.decode(body, type=TerminalRequest)
    except msgspec.DecodeError as error:
        raise GateError(Problem(status=422, code="invalid", message=f"No terminal of a job: {error}.")) from None
    manager = settings.get("terminal_manager")
    if manager is None:
        raise GateError(NO_TERMINALS)
    commands = [getattr(each.ptyproc, "argv", ()) for each in manager.terminals.values()]
    command = list(program(request, free_number(request.job, commands)))
    name = str(manager.create(shell_command=command)["name"])
    terminal = manager.get_terminal(name)
    terminal.read_buffer = Shown(maxlen=terminal.read_buffer.maxlen)
    return TerminalOpened(name)
