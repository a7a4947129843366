"""What jobs left on disk, read without holding up the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from springtide.scheduler.executors.base import LogPiece, Report
from springtide.scheduler.executors.files import logs, outputs, reports
from springtide.scheduler.executors.files.layout import Layout
from springtide.scheduler.executors.files.plain import relative_parts


class Reader:
    """Reads logs, reports and outputs as `Executor` promises them; ``now`` is the wall clock."""

    def __init__(self, layout: Layout, now: Callable[[], float]) -> None:
        self._layout = layout
        self._now = now

    async def log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        """See `Executor.read_log`."""
        return await asyncio.to_thread(logs.read_log, self._layout.job(job), rank, offset, limit)

    async def reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        """See `Executor.read_reports`."""
        places = self._layout.job(job)
        attempt = max(places.numbers(), default=1)
        batch = await asyncio.to_thread(reports.read, places.reports, max(0, after), limit, attempt, self._now())
        return batch.reports

    async def output(self, job: str, name: str, limit: int) -> bytes | None:
        """See `Executor.read_output`."""
        return await asyncio.to_thread(outputs.read_output, self._layout.job(job), relative_parts(name), limit)
