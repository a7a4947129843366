"""Pages of lists: their size, and the cursors between them."""

from __future__ import annotations

from springtide.scheduler.refusal import Refusal

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
        raise Refusal(
            422, "invalid", f"{cursor!r} is not a cursor of this list.", field="cursor", hint="Use `next`."
        )
    return int(cursor), limit
