"""What the executor remembers of an attempt that is not discarded."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    Exit,
    LogGrew,
    Report,
    Reported,
)
from springtide.scheduler.executors.local import logs, reports
from springtide.scheduler.executors.local.layout import JobPlaces
from springtide.scheduler.model import Placement, Worker

LONGEST_HISTORY = 1 << 26


@dataclass(slots=True)
class Tracked:
    """An attempt: where it lies, how it stands, who supervises it, and how far its log and reports were told.

    ``handle`` is the pidfd of its supervisor while that is known to live.
    """

    key: AttemptKey
    directory: Path
    places: JobPlaces
    uid: int
    uuids: frozenset[str]
    ranks: tuple[int, ...]
    status: AttemptStatus
    placement: Placement
    handle: int | None = None
    settling: bool = False
    offset: int = 0
    untold: Report | None = None
    saved: Report | None = None
    sizes: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)

    @property
    def gone(self) -> bool:
        """Whether all its processes are proven gone."""
        return self.status.phase is AttemptPhase.GONE

    def stand(self, phase: AttemptPhase, started: float | None, ended: Exit | None = None) -> None:
        """Note how the attempt stands."""
        self.status = AttemptStatus(self.key, phase, started, ended, self.placement)

    def grown_logs(self) -> list[LogGrew]:
        """The logs that have grown since they were told last."""
        found = []
        for rank in self.ranks:
            if rank not in self.before:
                earlier = [number for number in self.places.numbers() if number < self.key.attempt]
                sizes = (logs.attempt_size(self.places.attempts / str(number), rank) for number in earlier)
                self.before[rank] = sum(sizes)
            size = logs.attempt_size(self.directory, rank)
            if size != self.sizes.get(rank, 0):
                self.sizes[rank] = size
                found.append(LogGrew(self.key.job, rank, self.before[rank] + size))
        return found

    def read_all_reports(self, now: float) -> None:
        """Take in what was reported so far, of an absurdly long file only the end. May take a while."""
        with suppress(OSError):
            self.offset = max(0, self.places.reports.lstat().st_size - LONGEST_HISTORY)
        while self.read_reports(now, 1 << 16):
            pass

    def read_reports(self, now: float, limit: int) -> bool:
        """Take in new reports of the job; whether there may be more."""
        batch = reports.read(self.places.reports, self.offset, limit, self.key.attempt, now)
        self.offset = batch.offset
        for report in batch.reports:
            if report.saved:
                self.saved = report
            if report.attempt == self.key.attempt:
                self.untold = report
        return batch.more

    def take_reported(self) -> list[Reported]:
        """What is to be told of the reports taken in since the last time."""
        if self.untold is None:
            return []
        last, self.untold, saved = self.untold, None, self.saved
        return [Reported(self.key, last, saved.at if saved else None, saved.step if saved else None)]


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
        ranks=tuple(worker.rank for worker in placement),
        status=AttemptStatus(key, AttemptPhase.STARTING, placement=placement),
        placement=placement,
    )
