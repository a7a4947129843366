"""Logs, reports and output files of jobs, read through the executor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from springtide.scheduler import wire
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.executors.base import Executor, ExecutorError, LogPiece
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.own_outputs import OwnOutputs
from springtide.scheduler.own_outputs import openers as openers_of
from springtide.scheduler.project_tree import PLACE
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobRecord, JobSpec, TestStage
from springtide.scheduler.wording import LONG_GIVEN, given

MAX_FILES = 500
"""Maximum number of output files in one answer."""
MAX_OPENERS = 10
"""Maximum number of folders in one answer that tools show."""
MAX_POINTS = 5_000
"""Maximum number of reports in one answer."""
MAX_WAIT = 60.0
"""Maximum number of seconds to wait for a log to grow."""


class Outputs:
    """Logs, reports and output files of jobs.

    All methods raise `Refusal`: 404 for an unknown job, 422 or 503 if the executor cannot read.
    Those of a job whose test run has failed are of that test run.
    ``wait_for_log(job_id, timeout)`` waits until the job's log has grown or the job has ended.
    """

    def __init__(
        self,
        executor: Executor,
        jobs: JobLookup,
        wait_for_log: Callable[[str, float], Awaitable[None]],
        max_output_bytes: int,
    ) -> None:
        self._executor = executor
        self._jobs = jobs
        self._wait_for_log = wait_for_log
        self._max_output_bytes = max_output_bytes

    async def log(self, job_id: str, rank: int, offset: int, limit: int, wait: float) -> wire.LogChunk:
        """Return a piece of a worker's log, waiting up to ``wait`` seconds for the first new byte.

        ``rank`` is the worker, counted from 0; ``offset`` is in bytes over all attempts, from the end if negative.
        """
        job = await self._jobs.get(job_id)
        if rank == 0:
            job_id = (await self._with_files(job)).id
        if not 0 <= rank < job.spec.options.workers:
            raise Refusal(
                422,
                "invalid",
                f"The job has no worker {rank}; it has {job.spec.options.workers}.",
                field="rank",
                hint="Workers are counted from 0.",
            )
        limit = max(1, min(limit, wire.LONGEST_LOG_PIECE))
        chunk = await self._piece(job_id, rank, offset, limit)
        if chunk.text or chunk.ended or wait <= 0:
            return chunk
        await self._wait_for_log(job_id, min(wait, MAX_WAIT))
        return await self._piece(job_id, rank, offset, limit)

    async def _with_files(self, job: JobRecord) -> JobRecord:
        """Return the job whose log and files are shown: of a job whose test run has failed, that test run."""
        test = job.standing.test_run
        if test is None or test.stage is not TestStage.FAILED:
            return job
        try:
            return await self._jobs.get(test.job)
        except Refusal:
            return job

    async def _piece(self, job_id: str, rank: int, offset: int, limit: int) -> wire.LogChunk:
        job = await self._jobs.get(job_id)
        over = job.state.final
        if job.standing.attempt == 0:
            start = max(0, offset)
            return wire.LogChunk(text="", offset=start, next=start, ended=over, attempt=0)
        try:
            piece = await self._executor.read_log(job_id, rank, offset, limit)
        except ExecutorError as error:
            raise Refusal(503, "log", f"The log cannot be read: {error}", hint="Try again in a moment.") from error
        data = piece.data if over and _reaches_end(piece) else _whole_characters(piece.data)
        return wire.LogChunk(
            text=data.decode(errors="replace"),
            offset=piece.offset,
            next=piece.offset + len(data),
            size=piece.size,
            ended=over and piece.offset + len(data) >= piece.size,
            attempt=piece.attempt,
        )

    async def points(self, job_id: str, after: int, limit: int) -> wire.Points:
        """Return at most ``limit`` reports with ``seq`` above ``after``."""
        job_id = (await self._with_files(await self._jobs.get(job_id))).id
        try:
            reports = await self._executor.read_reports(job_id, after, max(1, min(limit, MAX_POINTS)))
        except ExecutorError as error:
            raise Refusal(503, "reports", f"The reports cannot be read: {error}") from error
        items = [
            wire.Point(
                seq=report.seq,
                attempt=report.attempt,
                at=report.at,
                step=report.step,
                values=dict(report.values),
                of_checkpoint=report.saved or report.unsaved,
                left_out=report.left_out,
            )
            for report in reports
        ]
        return wire.Points(items=items, next=items[-1].seq if items else after)

    async def listed(self, job_id: str) -> wire.OutputList:
        """Return the files of the job's output directory and its own outputs, the first `MAX_FILES` of them."""
        job = await self._with_files(await self._jobs.get(job_id))
        try:
            files = await self._executor.list_outputs(job.id, MAX_FILES + 1, own_outputs(job.spec))
        except ExecutorError as error:
            raise Refusal(503, "output", str(error), hint="Try again in a moment.") from error
        items = [
            wire.OutputFile(name=file.name, size=file.size, written=file.written) for file in files[:MAX_FILES]
        ]
        openers = [
            wire.OutputOpener(tool=each.tool, folder=each.folder, command=each.command)
            for each in openers_of(file.name for file in files)
        ]
        return wire.OutputList(items=items, more=len(files) > MAX_FILES, openers=openers[:MAX_OPENERS])

    async def output(self, job_id: str, name: str) -> BinaryIO:
        """Open an output of the job, which the caller closes."""
        job = await self._with_files(await self._jobs.get(job_id))
        try:
            content = await self._executor.open_output(job.id, name, self._max_output_bytes, own_outputs(job.spec))
        except ExecutorError as error:
            raise Refusal(422, "output", str(error), field="name") from error
        if content is None:
            raise Refusal(
                404,
                "not_found",
                f"The job has no output {given(name, LONG_GIVEN)}.",
                hint="It has ended, and springtide outputs lists those that it has."
                if job.state.final
                else "It may not be written yet.",
            )
        return content


def own_outputs(spec: JobSpec) -> OwnOutputs | None:
    """Return which files of a job's own working folder are outputs; None if it works in its user's own folder."""
    patterns = spec.options.outputs
    if spec.cwd is None:
        return OwnOutputs("", patterns)
    if spec.tree is None or spec.tree.digest is None or spec.options.in_place:
        return None
    copy = JobPlaces(Path()).tree(spec.tree.root).name
    inside = PurePosixPath(spec.cwd.replace(PLACE, spec.tree.root))
    if not inside.is_relative_to(spec.tree.root):
        return None
    return OwnOutputs(str(PurePosixPath(copy) / inside.relative_to(spec.tree.root)), patterns)


def _reaches_end(piece: LogPiece) -> bool:
    return piece.offset + len(piece.data) >= piece.size


def _whole_characters(data: bytes) -> bytes:
    """Return the data without an incomplete UTF-8 character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if back >= needed or back == len(data) else data[:-back]
    return data
