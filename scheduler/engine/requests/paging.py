"""Pages of lists: their size, and the cursors between them."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Position, position
from springtide.scheduler.store.records import JobRecord, JobSpec
from springtide.scheduler.wording import given

MAX_PAGE = 500
"""Maximum number of items of a page."""


def page_bounds(cursor: str | None, limit: int) -> tuple[int | None, int]:
    """Return the position after which a page begins, None for the first one, and its number of items.

    Raises `Refusal` (422) for a cursor that no list gave out.
    """
    limit = max(1, min(limit, MAX_PAGE))
    if cursor is None:
        return None, limit
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise _unknown(cursor)
    return int(cursor), limit


def job_page_bounds(order: str, cursor: str | None, limit: int) -> tuple[Position | None, int]:
    """Return the position in an order of jobs after which a page begins, None for the first, and its size.

    Raises `Refusal` (422) for a cursor that no list gave out.
    """
    if order == "newest" or cursor is None:
        seq, limit = page_bounds(cursor, limit)
        return None if seq is None else (-seq, -seq), limit
    try:
        after = msgspec.json.decode(urlsafe_b64decode(cursor.encode()), type=Position)
    except (ValueError, msgspec.MsgspecError):
        raise _unknown(cursor) from None
    if isinstance(after[0], str) != isinstance(position(order, _ANY)[0], str):
        raise _unknown(cursor)
    return after, page_bounds(None, limit)[1]


def job_cursor(order: str, last: JobRecord) -> str:
    """Return the cursor of the page after the one that ends with this job."""
    if order == "newest":
        return str(last.spec.seq)
    return urlsafe_b64encode(msgspec.json.encode(position(order, last))).decode()


_ANY = JobRecord(JobSpec(id="", seq=0, user="", project="", submitted=0.0, name="", kind="", argv=()))


def _unknown(cursor: str) -> Refusal:
    message = f"{given(cursor, 40)} is not a cursor of this list."
    hint = "A cursor is the `next` of the page before, with the same filters and order. Without one a list begins."
    return Refusal(422, "invalid", message, field="cursor", hint=hint)
