"""The declared contents of an image."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.engine.requests.acceptance import declared_contents
from springtide.scheduler.wire import DeclaredContents
from springtide.scheduler.wire.shapes import MAX_IMAGE


class ImageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: an image by its name."""

    image: Annotated[str, Meta(max_length=MAX_IMAGE)] = ""


@route("GET", "/images/contents", Who.LOGGED_IN)
async def contents(call: Call, query: ImageQuery) -> DeclaredContents:
    """Return the contents of an image, as administrators declared them."""
    declared = call.pool.engine.settings.image_contents
    return DeclaredContents(contents=declared_contents(query.image, declared))
