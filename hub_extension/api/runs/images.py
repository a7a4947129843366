"""The call that tells what is declared of an image."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from springtide.hub_extension.api.routes import Call, Route, Who
from springtide.scheduler.engine.requests.acceptance import declared_contents
from springtide.scheduler.wire import DeclaredContents
from springtide.scheduler.wire.shapes import MAX_IMAGE


class ImageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: an image by its name."""

    image: Annotated[str, Meta(max_length=MAX_IMAGE)] = ""


async def contents(call: Call[ImageQuery, None]) -> DeclaredContents:
    """Return what administrators have declared of an image."""
    declared = call.pool.engine.settings.image_contents
    return DeclaredContents(contents=declared_contents(call.query.image, declared))


ROUTES = (
    Route(
        "GET",
        "/images/contents",
        "What an image contains, as an administrator declared it",
        Who.LOGGED_IN,
        contents,
        query=ImageQuery,
        answers=DeclaredContents,
    ),
)
