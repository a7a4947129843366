"""The one exception whose text users see."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - it is an answer, not an accident
    """A request that cannot be granted, in words for the one who made it.

    ``status`` is the HTTP status, ``code`` names the kind for programs, ``field`` the part of the request that
    is wrong, ``hint`` the way out. Everything else that is raised is logged and answered as a plain 500.
    """

    def __init__(self, status: int, code: str, message: str, *, field: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.hint = hint
