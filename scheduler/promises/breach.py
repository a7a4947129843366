"""The nine promises, and what it means that one is broken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Promise(StrEnum):
    """What the pool promises."""

    EXCLUSIVE = "exclusive"
    """A GPU belongs to at most one live attempt; a pausing attempt holds its GPUs until it is gone."""
    BUILD = "fixed build quota"
    """No train job ever sits on build GPUs."""
    GUARANTEE = "guarantee"
    """A project below quota gets a job that fits its quota started, and never loses quota GPUs to another;
    nobody holds more than its limit, and what cannot be paused stays within quota."""
    GANG = "gang"
    """A job runs with 0 or at least its least number of workers, where it asked to run."""
    NOTHING_LOST = "nothing lost"
    """An accepted job ends exactly once; only jobs that want to run are started."""
    WORK_CONSERVING = "work conserving"
    """No job waits while it fits on free GPUs and nothing but the policy's oversight keeps it waiting."""
    NO_THRASHING = "no thrashing"
    """Every pause makes a better start possible, leaves new attempts alone, and a stable input comes to rest."""
    NO_STARVATION = "no starvation"
    """Whoever is entitled to GPUs starts or has a promised start before patience runs out."""
    REPLAYABLE = "replayable"
    """The same snapshot gives the same plan."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken promise, in words; ``job`` and ``project`` name whom it concerns."""

    promise: Promise
    message: str
    job: str | None = None
    project: str | None = None

    def __str__(self) -> str:
        return f"{self.promise}: {self.message}"
