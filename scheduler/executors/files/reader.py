"""Reads of the files of jobs in threads, in batches, without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Final, TypeVar

from springtide.scheduler.executors.base import LogPiece, OutputFile, Report
from springtide.scheduler.executors.files import logs, outputs, reports
from springtide.scheduler.executors.files.layout import Layout
from springtide.scheduler.executors.files.plain import relative_parts
from springtide.scheduler.file_names import real_name
from springtide.scheduler.own_outputs import OwnOutputs

T = TypeVar("T")

PATIENCE: Final = 0.25
"""Age of the newest batch above which further calls get a thread of their own, in seconds."""


@dataclass(slots=True)
class _Call:
    work: Callable[[], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001 - raised by the awaited call
            self.error = error

    def finish(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class BatchedCalls:
    """Runs blocking calls in at most ``threads`` threads called ``name``, each a batch at a time.

    To hand one call to a thread costs more than a few calls of the file system, and threads that make such calls
    at a time wait for each other. So a second thread works only while a batch is slow, as on a volume that
    answers slowly. The calls of a batch are made in order, and end together.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = threads
        self._threads = threads
        self._newest = 0.0
        self._waiting: list[_Call] = []

    async def call(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, or raise its exception. It is not called if this is cancelled before."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_Call(work, future))
        self._begin(loop)
        return await future

    def close(self) -> None:
        """Make no further calls; started ones finish."""
        self._pool.shutdown(wait=False)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        idle = self._free == self._threads
        slow = self._free and loop.time() - self._newest > PATIENCE
        if not self._waiting or not (idle or slow):
            return
        batch, self._waiting = [call for call in self._waiting if not call.future.done()], []
        try:
            running = loop.run_in_executor(self._pool, _run, batch)
        except RuntimeError as closed:
            for call in batch:
                call.future.set_exception(closed)
            return
        self._free -= 1
        self._newest = loop.time()

        def finish(_: object) -> None:
            self._free += 1
            self._begin(loop)
            for call in batch:
                call.finish()

        running.add_done_callback(finish)


def _run(batch: Sequence[_Call]) -> None:
    for call in batch:
        if not call.future.cancelled():
            call.run()


class Reader:
    """Reads logs, reports and outputs for an `Executor`; ``now`` is the wall clock."""

    def __init__(self, layout: Layout, now: Callable[[], float]) -> None:
        self._layout = layout
        self._now = now

    async def log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        """Return the result of `Executor.read_log`."""
        return await asyncio.to_thread(logs.read_log, self._layout.job(job), rank, offset, limit)

    async def reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        """Return the result of `Executor.read_reports`."""
        places = self._layout.job(job)
        attempt = max(places.numbers(), default=1)
        beginnings = await asyncio.to_thread(places.beginnings) if attempt > 1 else []
        read = partial(reports.read, beginnings=beginnings)
        batch = await asyncio.to_thread(read, places.reports, max(0, after), limit, attempt, self._now())
        return batch.reports

    async def output_files(self, job: str, most: int, own: OwnOutputs | None) -> tuple[OutputFile, ...]:
        """Return the result of `Executor.list_outputs`."""
        return await asyncio.to_thread(outputs.list_outputs, self._layout.job(job), most, own)

    async def output(self, job: str, name: str, limit: int, own: OwnOutputs | None) -> BinaryIO | None:
        """Return the result of `Executor.open_output`."""
        places, parts = self._layout.job(job), relative_parts(real_name(name))
        return await asyncio.to_thread(outputs.open_output, places, parts, limit, own)
