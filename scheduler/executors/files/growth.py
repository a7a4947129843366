"""How far the log and the reports of an attempt have come, and what of that was told."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from springtide.scheduler.executors.base import AttemptKey, LogGrew, Observation, Report, Reported
from springtide.scheduler.executors.files import logs, reports
from springtide.scheduler.executors.files.layout import JobPlaces

LONGEST_HISTORY = 1 << 26
AT_ONCE = 2000
"""So many reports are looked at before other work has its turn."""
LAST_LOOKS = 8


class Growth:
    """Follows the files of one attempt: each look tells what is new since the one before."""

    def __init__(self, key: AttemptKey, directory: Path, places: JobPlaces, ranks: Sequence[int]) -> None:
        self._key = key
        self._directory = directory
        self._places = places
        self._ranks = tuple(ranks)
        self._offset = 0
        self._untold: Report | None = None
        self._saved: Report | None = None
        self._sizes: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def read_all(self, now: float) -> None:
        """Take in what was reported so far, of an absurdly long file only the end. May take a while."""
        with suppress(OSError):
            self._offset = max(0, self._places.reports.lstat().st_size - LONGEST_HISTORY)
        while self._read(now, 1 << 16):
            pass

    def look(self, now: float) -> tuple[list[Observation], bool]:
        """What is to be told now, and whether anything had grown."""
        observed: list[Observation] = list(self._grown())
        before = self._offset
        self._read(now, AT_ONCE)
        observed += self._take()
        return observed, bool(observed) or self._offset != before

    def last_looks(self, now: float) -> list[Observation]:
        """What is to be told of an attempt that has ended."""
        told: list[Observation] = []
        for _ in range(LAST_LOOKS):
            observed, grew = self.look(now)
            told += observed
            if not grew:
                break
        return told

    def _grown(self) -> list[LogGrew]:
        found = []
        for rank in self._ranks:
            if rank not in self._before:
                earlier = [number for number in self._places.numbers() if number < self._key.attempt]
                sizes = (logs.attempt_size(self._places.attempts / str(number), rank) for number in earlier)
                self._before[rank] = sum(sizes)
            size = logs.attempt_size(self._directory, rank)
            if size != self._sizes.get(rank, 0):
                self._sizes[rank] = size
                found.append(LogGrew(self._key.job, rank, self._before[rank] + size))
        return found

    def _read(self, now: float, limit: int) -> bool:
        """Take in new reports of the job; whether there may be more."""
        batch = reports.read(self._places.reports, self._offset, limit, self._key.attempt, now)
        self._offset = batch.offset
        for report in batch.reports:
            if report.saved:
                self._saved = report
            if report.attempt == self._key.attempt:
                self._untold = report
        return batch.more

    def _take(self) -> list[Reported]:
        if self._untold is None:
            return []
        last, self._untold, saved = self._untold, None, self._saved
        return [Reported(self._key, last, saved.at if saved else None, saved.step if saved else None)]
