"""Ranges of the requests of a project's jobs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from springtide.scheduler import wording
from springtide.scheduler.model import PRIORITIES
from springtide.scheduler.resources import quantities
from springtide.scheduler.wire.shapes import MAX_IMAGE, Count, Positive, Request
from springtide.scheduler.wire.submission import MAX_MEMORY, MAX_TIME_LIMIT, MemoryText

JobPriority = Annotated[int, Meta(ge=0, le=1_000_000)]
ImagePattern = Annotated[str, Meta(min_length=1, max_length=MAX_IMAGE)]


class JobRanges(Request, frozen=True, kw_only=True):
    """Ranges of what the jobs of a project, and of the projects below it, may ask for; None means no bound.

    ``max_gpus``, ``max_cpus`` and ``max_memory``, in bytes or as text such as 64Gi, bound all workers of a job
    together, ``max_time_limit`` is in seconds. ``images`` are patterns in
    which ``*`` matches any characters. ``jobs_without_gpus`` is how many jobs without GPUs run at a time in the
    project, and in each of those below it that has no number of its own; None is the number of the project above.
    """

    min_priority: JobPriority = 0
    max_priority: JobPriority = max(PRIORITIES.values())
    max_gpus: Positive | None = None
    max_cpus: Annotated[float, Meta(ge=0.001, le=1e9)] | None = None
    max_memory: Annotated[int, Meta(ge=1, le=MAX_MEMORY)] | MemoryText | None = None
    max_time_limit: Annotated[float, Meta(gt=0, le=MAX_TIME_LIMIT)] | None = None
    images: Annotated[list[ImagePattern], Meta(max_length=100)] | None = None
    jobs_without_gpus: Count | None = None

    def words(self) -> str:
        """Return the ranges in words: ``priority 0 to 100, up to 8 GPUs, up to 2 h, images lab/*``."""
        parts = [f"priority {self.min_priority} to {self.max_priority}"]
        if self.max_gpus is not None:
            parts.append(f"up to {wording.gpus(self.max_gpus)}")
        if self.max_cpus is not None or self.max_memory is not None:
            most = wording.cores_and_memory(self.max_cpus or 0.0, quantities.memory(self.max_memory or 0))
            parts.append(f"up to {most}")
        if self.max_time_limit is not None:
            parts.append(f"up to {wording.exactly(self.max_time_limit)}")
        if self.images is not None:
            parts.append(f"images {wording.listed(self.images) or 'none'}")
        if self.jobs_without_gpus is not None:
            parts.append(f"{wording.amount(self.jobs_without_gpus)} without GPUs at a time")
        return ", ".join(parts)
