"""Errors, and the event stream."""

from __future__ import annotations

from typing import Any

from msgspec import field

from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire.shapes import Answer


class Problem(Answer, frozen=True, kw_only=True):
    """Every error's body. ``field`` names the invalid part of the request; ``hint`` suggests the next step."""

    status: int
    code: str
    message: str
    field: str | None = None
    hint: str = ""


def problem_of(refusal: Refusal) -> Problem:
    """Return a refusal as the body of an error."""
    return Problem(
        status=refusal.status,
        code=refusal.code,
        message=refusal.message,
        field=refusal.field,
        hint=refusal.hint,
    )


class Event(Answer, frozen=True, kw_only=True):
    """One event of the stream.

    ``id`` is None for passing ones (progress, log growth); others are kept and can be resumed from. ``kind``:
    ``job`` (``data`` is a `Job` as in a list), ``notification`` (to the caller: title and text, the job's id and
    the ``event``), ``pool`` (the fields of a `PoolView`), ``progress`` (job id and `Progress`), ``usage`` (job id
    and `JobUsage`), ``gpus`` (a `PoolUsage`), ``log`` (job id, its user and project, rank, size), ``deleted``
    (job id, its user and project: it is in no list any more), ``admin``
    (projects or people changed: ask again), ``refetch`` (something was missed: ask again for all that is shown).
    """

    kind: str
    data: dict[str, Any]
    id: int | None = None
    at: float = field(default=0.0)
