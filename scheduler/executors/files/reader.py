"""Reads the files of jobs in threads, without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import BinaryIO

from springtide.scheduler.executors.base import LogPiece, OutputFile, Report
from springtide.scheduler.executors.files import logs, outputs, reports
from springtide.scheduler.executors.files.layout import Layout
from springtide.scheduler.executors.files.plain import relative_parts


class Reader:
    """Reads logs, reports and outputs for an `Executor`; ``now`` is the wall clock."""

    def __init__(self, layout: Layout, now: Callable[[], float]) -> None:
        self._layout = layout
        self._now = now

    async def log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        """Return what `Executor.read_log` does."""
        return await asyncio.to_thread(logs.read_log, self._layout.job(job), rank, offset, limit)

    async def reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        """Return what `Executor.read_reports` does."""
        places = self._layout.job(job)
        attempt = max(places.numbers(), default=1)
        batch = await asyncio.to_thread(reports.read, places.reports, max(0, after), limit, attempt, self._now())
        return batch.reports

    async def output_files(self, job: str, most: int) -> tuple[OutputFile, ...]:
        """Return what `Executor.list_outputs` does."""
        return await asyncio.to_thread(outputs.list_outputs, self._layout.job(job), most)

    async def output(self, job: str, name: str, limit: int) -> BinaryIO | None:
        """Return what `Executor.open_output` does."""
        return await asyncio.to_thread(outputs.open_output, self._layout.job(job), relative_parts(name), limit)
