"""The state of an attempt that is not discarded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    Exit,
)
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.tail import Tail
from springtide.scheduler.model import Placement, Worker


@dataclass(slots=True)
class Tracked:
    """An attempt: its files, its status, its supervisor, and the position up to which its files were read.

    ``cgroup`` is the control group of its processes, None if they have none of their own. ``handle`` is the
    pidfd of its supervisor, None unless that is known to live. ``settling`` is set while the processes that a
    dead supervisor left are ended. ``uids`` are those of its processes, ``sessions`` the sessions of its workers
    by their leaders, with the start of each.
    """

    key: AttemptKey
    directory: Path
    places: JobPlaces
    uids: frozenset[int]
    uuids: frozenset[str]
    cgroup: Path | None
    status: AttemptStatus
    placement: Placement
    tail: Tail
    handle: int | None = None
    settling: bool = False
    sessions: dict[int, int] = field(default_factory=dict)

    @property
    def gone(self) -> bool:
        """Whether all its processes are proven to have ended."""
        return self.status.phase is AttemptPhase.GONE

    def set_phase(self, phase: AttemptPhase, started: float | None, ended: Exit | None = None) -> None:
        """Set the status of the attempt."""
        self.status = AttemptStatus(self.key, phase, started, ended, self.placement)


def _placement(spec: dict[str, Any]) -> Placement:
    """Return the placement of a ``spec.json``; those of earlier versions have all UUIDs in one list."""
    uuids, placed = list(spec.get("uuids", ())), []
    for worker in spec.get("workers", ()):
        gpus = tuple(worker["gpus"])
        shown, uuids = uuids[: len(gpus)], uuids[len(gpus) :]
        placed.append(Worker(worker["rank"], worker["node"], gpus, tuple(worker.get("uuids", shown))))
    return tuple(placed)


def track(key: AttemptKey, directory: Path, places: JobPlaces, spec: dict[str, Any]) -> Tracked:
    """Return an attempt from its ``spec.json``, which is empty if the attempt was refused."""
    placement = _placement(spec)
    return Tracked(
        key,
        directory,
        places,
        uids=frozenset(spec.get("uids", [spec["uid"]] if "uid" in spec else ())),
        uuids=frozenset(spec.get("uuids", ())),
        cgroup=Path(spec["cgroup"]) if spec.get("cgroup") else None,
        status=AttemptStatus(key, AttemptPhase.STARTING, placement=placement),
        placement=placement,
        tail=Tail(key, directory, places, [worker.rank for worker in placement]),
    )
