"""The part that executors share which keep the files of jobs in directories."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import BinaryIO

from springtide.scheduler.executors.base import (
    AttemptKey,
    Executor,
    ExecutorError,
    LogPiece,
    OutputFile,
    Report,
)
from springtide.scheduler.executors.checkpoint_files import CheckpointFiles
from springtide.scheduler.executors.files.epoch import EpochGate
from springtide.scheduler.executors.files.layout import Layout
from springtide.scheduler.executors.files.reader import Reader
from springtide.scheduler.executors.files.removal import remove_files, size_of_files
from springtide.scheduler.executors.files.unrecorded import Unrecorded
from springtide.scheduler.own_outputs import OwnOutputs

log = logging.getLogger(__name__)


class FileExecutor(Executor):
    """An executor that keeps the files of jobs in a `Layout`, and reads them there. ``now`` is the wall clock."""

    def __init__(self, layout: Layout, checkpoints: CheckpointFiles, now: Callable[[], float]) -> None:
        self._layout = layout
        self._checkpoints = checkpoints
        self._now = now
        self._reader = Reader(layout, now)
        self._epoch = EpochGate(layout)
        self._unrecorded = Unrecorded(layout)
        self._locks: dict[AttemptKey, asyncio.Lock] = {}

    async def newest_epoch(self) -> int:
        """Return the newest epoch that launched an attempt here, 0 if there is none."""
        return await asyncio.to_thread(self._epoch.newest)

    async def take_over(self, epoch: int) -> None:
        """Record the epoch in the directory of jobs; on a full disk that waits for the first launch."""
        try:
            await asyncio.to_thread(self._epoch.check, epoch)
        except OSError as error:
            log.warning("The epoch %d cannot be recorded: %s", epoch, error.strerror)

    async def size(self, job: str) -> int:
        """Return the size of a job's directory."""
        return await asyncio.to_thread(size_of_files, self._layout.job(job))

    async def unrecorded(self) -> Sequence[str]:
        """Return the jobs whose directories may be there before their records."""
        return await asyncio.to_thread(self._unrecorded.jobs)

    async def recorded(self, job: str) -> None:
        """Note that the record of a job is on disk."""
        await asyncio.to_thread(self._unrecorded.settle, job)

    async def read_log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        """Return part of the supervisors' log."""
        return await self._reader.log(job, rank, offset, limit)

    async def read_reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        """Return reports that the job wrote."""
        return await self._reader.reports(job, after, limit)

    async def list_outputs(self, job: str, most: int, own: OwnOutputs | None = None) -> tuple[OutputFile, ...]:
        """Return the files of the output directory, and the job's own outputs."""
        return await self._reader.output_files(job, most, own)

    async def open_output(self, job: str, name: str, limit: int, own: OwnOutputs | None = None) -> BinaryIO | None:
        """Open a file of the output directory."""
        return await self._reader.output(job, name, limit, own)

    async def _remove_files(self, job: str) -> None:
        places = self._layout.job(job)
        try:
            await asyncio.to_thread(remove_files, places)
            await asyncio.to_thread(self._unrecorded.settle, job)
        except OSError as error:
            raise ExecutorError(f"{places.root} cannot be deleted: {error.strerror}.") from error

    def _lock(self, key: AttemptKey) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())
