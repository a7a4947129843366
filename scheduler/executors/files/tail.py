"""The position up to which the log and the reports of an attempt have been read and reported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from springtide.scheduler.executors.base import (
    AttemptKey,
    LogGrew,
    Milestone,
    Observation,
    Report,
    Reported,
    TrialReport,
)
from springtide.scheduler.executors.files import logs, reports
from springtide.scheduler.executors.files.layout import REPORTS, JobPlaces
from springtide.scheduler.metrics import Extremes, latest, since, with_values
from springtide.scheduler.model import Checkpoint

LONGEST_HISTORY = 1 << 26
"""Maximum number of bytes of earlier reports that are read at first."""
HISTORY_BATCH = 1 << 16
"""Maximum number of earlier reports that are read at a time."""
BATCH = 2000
"""Maximum number of reports that are read before other work has its turn."""
LAST_READS = 8
"""Maximum number of reads of an ended attempt's files."""
_Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and time of the last change of a file."""


class Tail:
    """Reads the files of one attempt: each read reports the news since the one before."""

    def __init__(self, key: AttemptKey, directory: Path, places: JobPlaces, ranks: Sequence[int]) -> None:
        self._key = key
        self._directory = directory
        self._places = places
        self._ranks = tuple(ranks)
        self._offset = 0
        self._beginnings: list[tuple[int, int]] | None = [] if key.attempt == 1 else None
        self._unreported: Report | None = None
        self._saved: Report | None = None
        self._unsaved_at: float | None = None
        self._room_until: float | None = None
        self._damaged = False
        self._trial: TrialReport | None = None
        self._milestones: set[Milestone] = set()
        self._step: float | None = None
        self._of: float | None = None
        self._lost_result = ""
        self._found: Checkpoint | None = None
        self._extremes: dict[str, Extremes] = {}
        self._not_finite: dict[str, float | None] = {}
        self._sizes: dict[int, int] = {}
        self._earlier_sizes: dict[int, int] = {}
        logs_of_ranks = (f"{directory}/log.{rank}" for rank in self._ranks)
        self._paths = (f"{places.root}/{REPORTS}", *logs_of_ranks)
        self._stamps: list[_Stamp | None] | None = None

    @property
    def complete(self) -> bool:
        """Whether the attempt has reported that the work of its job is complete.

        Either the program declared it, or its function or notebook returned without a request to pause, or its
        last report has reached the last step.
        """
        if Milestone.DONE in self._milestones:
            return True
        if Milestone.RETURNED in self._milestones and Milestone.PAUSE_SEEN not in self._milestones:
            return True
        return self._step is not None and self._of is not None and self._step >= self._of > 0

    @property
    def returned(self) -> bool | None:
        """Whether the function of the attempt has returned; None if it reported no call of one."""
        if Milestone.RETURNED in self._milestones:
            return True
        return False if Milestone.CALLED in self._milestones else None

    def read_history(self, now: float) -> None:
        """Read the reports so far, at most the last `LONGEST_HISTORY` bytes. May block for seconds."""
        stamp = _stamp(self._paths[0])
        self._offset = 0 if stamp is None else max(0, stamp[1] - LONGEST_HISTORY)
        while self._read_reports(now, stamp, HISTORY_BATCH, earlier=self._key.attempt > 1):
            pass

    def read_new(self, now: float) -> tuple[list[Observation], bool]:
        """Return the observations to report now, and whether a file has grown.

        Unchanged files are not opened.
        """
        stamps = [_stamp(path) for path in self._paths]
        if stamps == self._stamps and self._unreported is None:
            return [], False
        observed: list[Observation] = list(self._grown_logs(stamps[1:]))
        before = self._offset
        more = self._read_reports(now, stamps[0], BATCH)
        self._stamps = None if more else stamps
        observed += self._take_unreported()
        return observed, bool(observed) or self._offset != before

    def read_rest(self, now: float) -> list[Observation]:
        """Return the last observations of an ended attempt."""
        rest: list[Observation] = []
        for _ in range(LAST_READS):
            observed, grew = self.read_new(now)
            rest += observed
            if not grew:
                break
        return rest

    def _grown_logs(self, stamps: Sequence[_Stamp | None]) -> list[LogGrew]:
        """Return the logs that have grown; ``stamps`` are those of the workers' logs."""
        grown = []
        for rank, stamp in zip(self._ranks, stamps, strict=True):
            if stamp is None:
                continue
            if rank not in self._earlier_sizes:
                known = self._places.numbers() if self._key.attempt > 1 else ()
                earlier = [number for number in known if number < self._key.attempt]
                sizes = (logs.attempt_size(self._places.attempts / str(number), rank) for number in earlier)
                self._earlier_sizes[rank] = sum(sizes)
            size = logs.attempt_size(self._directory, rank)
            if size != self._sizes.get(rank, 0):
                self._sizes[rank] = size
                grown.append(LogGrew(self._key.job, rank, self._earlier_sizes[rank] + size))
        return grown

    def _read_reports(self, now: float, stamp: _Stamp | None, limit: int, *, earlier: bool = False) -> bool:
        """Read new reports of the job, whose file had this stamp; return whether there may be more.

        With ``earlier``, reports whose attempt is not certain may be of an earlier one, and mark no end.
        """
        if stamp is None or stamp[1] <= self._offset:
            return False
        if self._beginnings is None:
            self._beginnings = self._places.beginnings()
        batch = reports.read(
            self._places.reports, self._offset, limit, self._key.attempt, now, beginnings=self._beginnings
        )
        self._offset = batch.offset
        for report in batch.reports:
            self._found = None if report.milestone is Milestone.CHECKPOINT_GONE else report.found or self._found
            if report.milestone is Milestone.CHECKPOINTS_DAMAGED:
                self._saved, self._damaged = None, True
            elif report.saved:
                self._saved, self._unsaved_at, self._damaged = report, None, False
            elif report.unsaved and report.attempt == self._key.attempt:
                self._unsaved_at = report.at
            if report.attempt == self._key.attempt:
                if report.waits_for_room is not None:
                    self._room_until = report.at + report.waits_for_room if report.waits_for_room else None
                self._unreported = _together(self._unreported, report)
                self._extremes = with_values(self._extremes, report.values, report.step)
                self._not_finite = since(self._not_finite, report.values, report.step)
                self._trial = report.trial or self._trial
                if report.numbered or not earlier:
                    self._follow(report)
        return batch.more

    def _follow(self, report: Report) -> None:
        """Track whether the work is complete; the lines of checkpoints have no last step."""
        self._lost_result = report.lost_result or self._lost_result
        if report.milestone is not None:
            self._milestones.add(report.milestone)
        if report.step is not None and not (report.saved or report.unsaved):
            self._step, self._of = report.step, report.of

    def _take_unreported(self) -> list[Reported]:
        if self._unreported is None:
            return []
        last, self._unreported, saved = self._unreported, None, self._saved
        at, step = (saved.at, saved.step) if saved else (None, None)
        extremes, self._extremes = self._extremes, {}
        return [
            Reported(
                self._key,
                last,
                at,
                step,
                self._unsaved_at,
                self._trial,
                self._lost_result,
                self._found,
                extremes,
                self._not_finite,
                self._damaged,
                self._room_until,
            )
        ]


def _stamp(path: str) -> _Stamp | None:
    """Return a stamp that changes with each write to a file; None if there is no file."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _together(earlier: Report | None, report: Report) -> Report:
    """Return the newest report, completed by the content of earlier unreported ones."""
    if earlier is None:
        return report
    step, of = (earlier.step, earlier.of) if report.step is None else (report.step, report.of)
    values = latest(earlier.values, report.values)
    return replace(report, step=step, of=earlier.of if of is None else of, values=values)
