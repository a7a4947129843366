"""Errors as sent to callers: one format, plain sentences, no internal details."""

from __future__ import annotations

from http import HTTPStatus

from tornado.web import HTTPError

from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Problem

PLAIN = {
    400: "The request could not be read.",
    401: "Nobody is logged in, or the token is no longer good.",
    403: "This is not allowed.",
    404: "There is nothing at this address.",
    405: "This address does not take this kind of request.",
    413: "The request is too large.",
}


class Busy(Refusal):
    """Refusal because of too many requests of one caller; ``retry_after`` is in whole seconds."""

    def __init__(self, code: str, message: str, *, retry_after: int, hint: str = "") -> None:
        super().__init__(429, code, message, hint=hint)
        self.retry_after = retry_after


def unknown_caller() -> Refusal:
    """Return the refusal of a request without good credentials."""
    hint = "Log in to the hub, or send a token of the hub as 'Authorization: token …'."
    return Refusal(401, "unauthenticated", PLAIN[401], hint=hint)


def problem_of(error: BaseException | None, error_id: str) -> Problem:
    """Return an error as callers may see it. ``error_id`` identifies the full error in the log."""
    if isinstance(error, Refusal):
        return wire.problem_of(error)
    if isinstance(error, HTTPError) and error.status_code < 500:
        status = error.status_code
        phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else "refused"
        code = phrase.lower().replace(" ", "_").replace("-", "_")
        return Problem(status=status, code=code, message=PLAIN.get(status, f"{phrase}."))
    return Problem(
        status=500,
        code="internal",
        message="Something went wrong inside the pool's service. What it confirmed before is safe.",
        hint=f"An administrator finds it in the service's log under {error_id}.",
    )
