"""The one exception whose text users see."""

from __future__ import annotations

from typing import Final

from springtide.scheduler.wording import given, is_printable

UNKNOWN: Final = "not_found"
"""Code of a refusal: the job does not exist, or the caller may not see it."""
CHANGED: Final = "changed"
"""Code of a refusal: the thing has changed since the caller saw it."""
UNKNOWN_PROJECT: Final = "unknown_project"
"""Code of a refusal: there is no project of the name."""
DELETED: Final = "deleted"
"""Code of a refusal: a person deleted the job, which the caller could see."""


class Refusal(Exception):  # noqa: N818 - an answer to a user, not a program error
    """A request that cannot be granted, with a message for the user who sent it.

    ``status`` is the HTTP status, ``code`` names the kind of error for programs, ``field`` the part of the request
    that is wrong, ``hint`` the way to correct it. Every other exception is logged and answered as a plain 500.
    """

    def __init__(self, status: int, code: str, message: str, *, field: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.hint = hint


def invalid_field(field: str, message: str, hint: str = "") -> Refusal:
    """Return the refusal of a request because of one of its fields."""
    return Refusal(422, "invalid", message, field=field, hint=hint)


def checked_reason(text: str, field: str = "why") -> str:
    """Return the reason of a request, without the space around it. Raises `Refusal` for control characters."""
    if not is_printable(text):
        raise invalid_field(field, "The reason has control characters.", "Write it on one line.")
    return text.strip()


def unknown_job(job_id: str) -> Refusal:
    """Return the refusal for a job that does not exist, or that the caller may not see."""
    return Refusal(
        404,
        UNKNOWN,
        f"There is no job {given(job_id)} that you may see.",
        hint="My jobs and springtide jobs list those that you see, by their ids. A name is no id, and jobs that "
        "are not kept any more, or of projects that you are not in, are not among them.",
    )


def unknown_project(
    name: str, field: str | None = None, *, status: int = 404, hint: str = "", more: str = ""
) -> Refusal:
    """Return the refusal for a project that does not exist; ``more`` ends its sentence."""
    return Refusal(status, UNKNOWN_PROJECT, f"There is no project {given(name)}{more}.", field=field, hint=hint)


def deleted_job(job_id: str, name: str, by: str, ago: str) -> Refusal:
    """Return the refusal for a job that ``by`` deleted; ``ago`` says when."""
    message = f"The job {given(job_id)}, {given(name)}, was deleted by {by} {ago}, with its files and its log."
    return Refusal(404, DELETED, message)
