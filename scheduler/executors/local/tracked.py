"""What the executor remembers of an attempt that is not discarded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    Exit,
)
from springtide.scheduler.executors.files.growth import Growth
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.model import Placement, Worker


@dataclass(slots=True)
class Tracked:
    """An attempt: where it lies, how it stands, who supervises it, and how far its files were followed.

    ``handle`` is the pidfd of its supervisor while that is known to live.
    """

    key: AttemptKey
    directory: Path
    places: JobPlaces
    uid: int
    uuids: frozenset[str]
    status: AttemptStatus
    placement: Placement
    growth: Growth
    handle: int | None = None
    settling: bool = False

    @property
    def gone(self) -> bool:
        """Whether all its processes are proven gone."""
        return self.status.phase is AttemptPhase.GONE

    def stand(self, phase: AttemptPhase, started: float | None, ended: Exit | None = None) -> None:
        """Note how the attempt stands."""
        self.status = AttemptStatus(self.key, phase, started, ended, self.placement)


def track(key: AttemptKey, directory: Path, places: JobPlaces, spec: dict[str, Any]) -> Tracked:
    """An attempt as its ``spec.json`` tells it; an empty one was refused."""
    workers = spec.get("workers", ())
    placement = tuple(Worker(worker["rank"], worker["node"], tuple(worker["gpus"])) for worker in workers)
    return Tracked(
        key,
        directory,
        places,
        uid=spec.get("uid", -1),
        uuids=frozenset(spec.get("uuids", ())),
        status=AttemptStatus(key, AttemptPhase.STARTING, placement=placement),
        placement=placement,
        growth=Growth(key, directory, places, [worker.rank for worker in placement]),
    )
