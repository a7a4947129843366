"""Programs that people run inside running jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from springtide.scheduler import wire
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.executors.base import AttemptKey, Executor, ExecutorError, ProgramError
from springtide.scheduler.executors.session import STACK, Session, SessionSpec
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal, invalid_field
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.wire.sessions import NOT_STARTED
from springtide.scheduler.wording import plural, quoted

STACK_WITHIN = 60.0
"""Time for the stacks of a worker, in seconds."""
MOST_STACK_BYTES = 256 * 1024
"""Maximum size of the stacks of a worker, in bytes."""
MOST_WORKERS = 64
"""Maximum number of workers whose stacks are in one answer."""
AT_ONCE = 8
"""Maximum number of workers of a job whose stacks are read at a time."""
RUNS = frozenset({JobState.RUNNING, JobState.PAUSING})
"""The states in which a job has processes."""


class JobSessions:
    """Starts sessions in the live attempts of jobs. Methods raise `Refusal`."""

    def __init__(self, executor: Executor, jobs: JobLookup, clock: Callable[[], float]) -> None:
        self._executor = executor
        self._jobs = jobs
        self._clock = clock
        self._stacks: dict[str, asyncio.Task[wire.JobStack]] = {}

    async def attempt(self, job_id: str, rank: int) -> AttemptKey:
        """Return the running attempt of a job.

        Raises `Refusal`: 409 if it does not run, 422 if it has no such worker.
        """
        job = await self._jobs.get(job_id)
        live = job.live
        if live is None or job.state not in RUNS:
            raise _not_running(job)
        if not 0 <= rank < job.spec.options.workers:
            number = f"{job.spec.options.workers} {plural(job.spec.options.workers, 'worker')}"
            raise invalid_field("rank", f"The job has no worker {rank}; it has {number}.", "They count from 0.")
        return AttemptKey(job.id, live.number)

    async def open(self, key: AttemptKey, spec: SessionSpec) -> Session:
        """Start a program. Raises `Refusal` 409 if that is not possible."""
        try:
            return await self._executor.open_session(key, spec)
        except ProgramError as error:
            raise Refusal(409, NOT_STARTED[error.exit_code], str(error)) from error
        except ExecutorError as error:
            raise Refusal(409, "session", str(error)) from error

    async def stack(self, job_id: str) -> wire.JobStack:
        """Return where all workers of a running job are. Requests that come meanwhile get the same answer.

        Raises `Refusal` 409 if the job does not run.
        """
        task = self._stacks.get(job_id)
        if task is None:
            attempt = await self.attempt(job_id, 0)
            live = (await self._jobs.get(job_id)).live
            ranks = sorted(worker.rank for worker in live.placement) if live else []
            task = self._stacks[job_id] = asyncio.ensure_future(self._all_stacks(attempt, ranks))
            task.add_done_callback(lambda _: self._stacks.pop(job_id, None))
        return await asyncio.shield(task)

    async def _all_stacks(self, attempt: AttemptKey, ranks: Sequence[int]) -> wire.JobStack:
        at, places = self._clock(), asyncio.Semaphore(AT_ONCE)

        async def one(rank: int) -> wire.WorkerStack:
            async with places:
                return await self._stack(attempt, rank)

        workers = await asyncio.gather(*map(one, ranks[:MOST_WORKERS]))
        return wire.JobStack(at=at, workers=list(workers), more=max(0, len(ranks) - MOST_WORKERS))

    async def _stack(self, attempt: AttemptKey, rank: int) -> wire.WorkerStack:
        """Return where a worker is, or why that cannot be found out."""
        session, text, late = None, b"", False
        try:
            session = await self._executor.open_session(attempt, SessionSpec(rank, tool=STACK))
            async with asyncio.timeout(STACK_WITHIN):
                while (piece := await session.read()) is not None and len(text) < MOST_STACK_BYTES:
                    text += piece[1]
        except ExecutorError as error:
            return wire.WorkerStack(rank=rank, problem=str(error))
        except TimeoutError:
            late = True
        finally:
            if session is not None:
                await session.close()
        said = text[:MOST_STACK_BYTES].decode(errors="replace").strip()
        problem = "The rest did not come in time." if late else "" if said else "It has no processes any more."
        return wire.WorkerStack(rank=rank, text=printable_lines(said), problem=problem)


def printable_lines(text: str) -> str:
    """Return a text without control characters; newlines stay, tabs become spaces."""
    return "".join(c for c in text.expandtabs(4) if c == "\n" or c.isprintable())


def _not_running(job: JobRecord) -> Refusal:
    if job.standing.sweep is not None:
        hint = f"Name one of its trials: `springtide jobs --sweep {job.id}` lists them."
        message = f"{quoted(job.spec.name or job.id)} is a sweep, which runs as its trials."
        return Refusal(409, "not_running", message, hint=hint)
    hint = f"`springtide explain {job.id}` says why it waits." if not job.state.final else ""
    return Refusal(409, "not_running", f"The job does not run: its state is {job.state}.", hint=hint)
