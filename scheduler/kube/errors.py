"""Errors of requests to the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

CONFIGURATION = "Configuration"
"""Reason of an error without any request: the configuration is missing or malformed."""


class ApiError(Exception):
    """A request without a successful answer.

    ``status`` is the HTTP status, 0 if there was no answer. ``reason`` is the API's word for the error
    (``NotFound``, ``AlreadyExists``, ``Conflict``, ``Expired``…); without an answer it is ``Unreachable``,
    ``Timeout``, ``Unreadable`` or ``Configuration``. ``message`` is a sentence. ``retry_after`` is the pause
    requested by the server, in seconds.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later: the server is unreachable, failing or overloaded."""
        return self.reason != CONFIGURATION and (self.status in {0, 429} or self.status >= 500)


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """Return the error that an answer describes; ``body`` is a ``Status`` object or any other text."""
    try:
        described = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        described = _Status()
    try:
        pause = float(headers.get("Retry-After", ""))
    except ValueError:
        pause = None
    message = described.message or body[:500].decode(errors="replace").strip() or f"The API answered {status}."
    return ApiError(described.code or status, described.reason or str(status), message, retry_after=pause)
