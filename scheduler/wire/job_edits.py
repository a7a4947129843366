"""Changes of what an unfinished job asks for."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from springtide.scheduler.wire.durations import MAX_LENGTH
from springtide.scheduler.wire.shapes import Positive, ProjectName, Request, Word

MAX_REASON = 500
"""Maximum length of the reason of a change or a hold, in characters."""
OPTIONS_EDITED = ("priority", "time_limit", "workers", "min_workers")
"""The job options that an edit changes."""


class JobEdit(Request, frozen=True, kw_only=True):
    """A change of what a job asks for, or of its project, while it does not run; a field left out stays.

    ``priority`` may be a name, ``time_limit`` a duration such as ``2h`` or null for none, and ``min_workers`` null
    for all workers. ``reason`` is kept in the audit trail.
    """

    project: ProjectName | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=0, le=1_000_000)] | Word | UnsetType = UNSET
    time_limit: Annotated[float, Meta(gt=0)] | Annotated[str, Meta(max_length=MAX_LENGTH)] | UnsetType | None = (
        UNSET
    )
    workers: Positive | UnsetType = UNSET
    min_workers: Positive | UnsetType | None = UNSET
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""

    @property
    def options(self) -> dict[str, Any]:
        """The changed options by name, as they were given."""
        return {name: value for name in OPTIONS_EDITED if (value := getattr(self, name)) is not UNSET}
