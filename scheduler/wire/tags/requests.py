"""What a person asks to change of a job's tags."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from springtide.scheduler.wire.shapes import MAX_TAGS, Request

MAX_WORD = 200
"""Maximum number of characters of a word that is taken as a tag, or refused with the reason why it is none."""
Tags = Annotated[list[Annotated[str, Meta(max_length=MAX_WORD)]], Meta(max_length=MAX_TAGS)]


class TagsEdit(Request, frozen=True, kw_only=True):
    """A change of a job's tags: ``tags`` replaces all of them, ``add`` and ``remove`` some."""

    tags: Tags | None = None
    add: Tags = []
    remove: Tags = []
