"""Errors between a caller and the pool, with messages for the caller."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec

from springtide.scheduler.wire import Problem


class PoolError(Exception):
    """The pool refused the request. ``problem`` is the reason for programs, ``str()`` the message for people.

    ``retry_after`` is the time after which it may be sent again, in seconds; 0 if the pool names none.
    """

    def __init__(self, problem: Problem, retry_after: float = 0.0) -> None:
        super().__init__(f"{problem.message} {problem.hint}".strip())
        self.problem = problem
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return self.problem.status

    @property
    def code(self) -> str:
        """The kind of refusal, for programs."""
        return self.problem.code


class Unreachable(Exception):  # noqa: N818 - a state of the world rather than a mistake
    """The pool's service does not answer. Submitted jobs are safe, and running jobs continue."""


OF_ANOTHER: Final = "http"
"""Code of the problem of an answer that another server than the pool wrote."""


def problem_of(status: int, body: bytes) -> Problem:
    """Return the problem that an answer describes, also if another server than the pool wrote it."""
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else "unknown status"
        return Problem(
            status=status,
            code=OF_ANOTHER,
            message=f"The pool's address answered {status} ({phrase}) in a form that is not the pool's.",
            hint="Check SPRINGTIDE_URL: it is the service's address, without /api/v1.",
        )
