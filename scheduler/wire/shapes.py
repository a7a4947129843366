"""The base of all shapes: the two kinds of structs and the bounds of their fields."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

MAX_GPUS = 1_000_000
MAX_NAME = 128
MAX_IMAGE = 512
MAX_TAG = 64
"""Maximum length of a tag, in characters."""
MAX_TAGS = 20
"""Maximum number of tags of a job."""
MAX_TAGS_BYTES = 512
"""Maximum length of all tags of a job together in UTF-8, in bytes: they are part of an index of the store."""
MAX_JOBS_PAGE = 200
"""Maximum number of jobs in one answer."""

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
ProjectName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f/]+(?!\n)$")]
Word = Annotated[str, Meta(max_length=MAX_NAME)]
Tag = Annotated[str, Meta(min_length=1, max_length=MAX_TAG, pattern=r"^[^\x00-\x20\x7f,]+(?!\n)$")]
"""A word that jobs are found by: without spaces and commas."""
KEPT_PATTERN = r"^[^:\x00-\x1f\x7f]+(:(min|max))?(?!\n)$"
KeptMetric = Annotated[str, Meta(max_length=MAX_NAME, pattern=KEPT_PATTERN)]
"""The metric of the best checkpoint, and whether its smallest or its largest value is the best."""
Count = Annotated[int, Meta(ge=0, le=MAX_GPUS)]
TypeName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Quantity = Count | Annotated[dict[TypeName, Count | None], Meta(max_length=100)]
"""A number of GPUs, or on a pool with several GPU types a table by type. A type left out has 0; None: no bound."""
Positive = Annotated[int, Meta(ge=1, le=MAX_GPUS)]


Until = Annotated[float, Meta(ge=0, le=1e12)]
"""When a change ends by itself, in seconds since the epoch, as the system clock has it then.

The bound is beyond all dates with a year of four digits; an end too far away is refused in words.
"""


class Request(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A body that a caller sends."""


class Answer(Struct, frozen=True, kw_only=True):
    """A body that the API sends."""
