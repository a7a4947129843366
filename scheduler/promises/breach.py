"""The nine promises, and the record of a broken one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Promise(StrEnum):
    """The promises of the pool."""

    EXCLUSIVE = "exclusive"
    """A GPU belongs to at most one live attempt; a pausing attempt holds its GPUs until its processes end."""
    BUILD = "fixed build quota"
    """No train job runs on build GPUs."""
    GUARANTEE = "guarantee"
    """A project below its quota gets a job that fits its quota started, and never loses quota GPUs to another;
    no project holds more than its limit, and jobs that are not preemptible stay within the quota."""
    GANG = "gang"
    """A job runs with 0 or at least ``min_workers`` workers, on the nodes and in the domain that it requested."""
    NOTHING_LOST = "nothing lost"
    """An accepted job ends exactly once; only jobs that request to run are started."""
    WORK_CONSERVING = "work conserving"
    """No job waits while it fits on free GPUs and no rule of the policy delays it."""
    NO_THRASHING = "no thrashing"
    """Every pause makes a better start possible and spares new attempts; a stable input leads to empty plans."""
    NO_STARVATION = "no starvation"
    """A job that is entitled to GPUs starts or gets a reservation within ``patience`` seconds."""
    REPLAYABLE = "replayable"
    """The same snapshot gives the same plan."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken promise as a sentence; ``job`` and ``project`` name the job and the project concerned."""

    promise: Promise
    message: str
    job: str | None = None
    project: str | None = None

    def __str__(self) -> str:
        return f"{self.promise}: {self.message}"
