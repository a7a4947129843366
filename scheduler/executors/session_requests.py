"""What a supervisor is sent for a session, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from springtide.scheduler.executors.base import ExecutorError, ProgramError
from springtide.scheduler.executors.session import SessionSpec
from springtide.scheduler.executors.supervisor.sessions import LONGEST_REQUEST
from springtide.scheduler.wire.sessions import SessionEnd

SIGNALLED = 128
"""Base of the exit codes of programs that a signal killed; the number of the signal is added."""


def request_of(spec: SessionSpec, tool: Sequence[str]) -> bytes:
    """Return the request for a session as a supervisor reads it; ``tool`` is the command of the spec's tool.

    Raises `ExecutorError` if it is too long.
    """
    size = spec.terminal
    record = {
        "rank": spec.rank,
        "argv": list(tool if spec.tool else spec.argv),
        "terminal": None if size is None else [size.rows, size.columns],
        "variables": {} if size is None else {"TERM": spec.kind},
    }
    line = json.dumps(record).encode() + b"\n"
    if len(line) > LONGEST_REQUEST:
        raise ExecutorError("The command of the session is too long.")
    return line


def refused(answer: Mapping[str, Any]) -> ExecutorError | None:
    """Return the error of a supervisor's answer, None if the program runs."""
    if answer.get("code") is not None:
        return ProgramError(str(answer["problem"]), answer["code"])
    return ExecutorError(str(answer["problem"])) if "problem" in answer else None


def end_of(answer: Mapping[str, Any]) -> SessionEnd:
    """Return the end of a session that a supervisor has sent."""
    if "problem" in answer:
        return SessionEnd(reason=str(answer["problem"]))
    status = int(answer["status"])
    return SessionEnd(code=status if status >= 0 else SIGNALLED - status)
