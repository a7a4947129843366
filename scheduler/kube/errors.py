"""What the API says when it does not do what it was asked."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class ApiError(Exception):
    """A request that was not answered with success.

    ``status`` is the HTTP status, 0 if there was no answer; ``reason`` the API's word for it (``NotFound``,
    ``AlreadyExists``, ``Conflict``, ``Expired``…, ``Unreachable`` or ``Timeout`` without an answer); ``message``
    its sentence. ``retry_after`` is the pause in seconds that the server asked for.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Whether the same request may work later: the server is away, ill or has too much to do."""
        return self.status in {0, 429} or self.status >= 500

    @property
    def perhaps_done(self) -> bool:
        """Whether a write may have happened all the same."""
        return self.status == 0 or self.status >= 500


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The error that a response tells."""
    try:
        said = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        said = _Status()
    try:
        pause = float(headers.get("Retry-After", ""))
    except ValueError:
        pause = None
    message = said.message or body[:500].decode(errors="replace").strip() or f"The API answered {status}."
    return ApiError(said.code or status, said.reason or str(status), message, retry_after=pause)
