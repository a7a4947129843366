"""Client of the forecast process, which is started by the first request and ends after a time without one."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence

import msgspec

from springtide.scheduler.engine.worker_environment import environment_of_worker
from springtide.scheduler.forecast import Outlook, Stopping, StopTime
from springtide.scheduler.forecast_worker import LENGTH_BYTES, ForecastReply, ForecastRequest, JobBatch, framed
from springtide.scheduler.history.run_times import RunTimes
from springtide.scheduler.model import Job, Snapshot

COMMAND = (sys.executable, "-P", "-m", "springtide.scheduler.forecast_worker")
JOBS_PER_BATCH = 200
"""Number of jobs encoded at once; the event loop runs between batches."""
REPLY_TIMEOUT = 120.0
"""Seconds after which a request without a reply has failed."""
IDLE_TIMEOUT = 120.0
"""Seconds without a request after which the process ends."""
END_TIMEOUT = 2.0
"""Seconds for the process to end before it is killed."""


class ForecastError(Exception):
    """A forecast could not be computed; the message is for the log."""


class ForecastClient:
    """Sends one request at a time to its process, which ends with `stop` or after `IDLE_TIMEOUT`."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: Process | None = None
        self._lock = asyncio.Lock()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._replies = msgspec.msgpack.Decoder(ForecastReply)

    async def ask(
        self,
        snapshot: Snapshot,
        asked: list[str] | None,
        times: RunTimes,
        *,
        max_waiting: int,
        horizon: float,
        computing_time: float,
        diagnosed: list[str],
        stop_of: Callable[[Job], StopTime],
        stopping: list[Stopping],
    ) -> Outlook:
        """Return the outlook from a snapshot, for the jobs ``asked`` or for all waiting ones.

        ``times`` are the run times of ended jobs, ``max_waiting`` the number of waiting jobs to take into account,
        ``horizon`` and ``computing_time`` seconds. ``diagnosed`` are waiting jobs of which is found what lets them
        start. ``stop_of`` returns how long a pause of a job takes, ``stopping`` are the attempts that stop now.
        Raises `ForecastError`.
        """
        async with self._lock:
            if self._idle_timer is not None:
                self._idle_timer.cancel()
            try:
                async with asyncio.timeout(REPLY_TIMEOUT):
                    reply = await self._exchange(
                        snapshot,
                        asked,
                        times,
                        bounds=(max_waiting, horizon, computing_time),
                        diagnosed=diagnosed,
                        stop_of=stop_of,
                        stopping=stopping,
                    )
            except BaseException as error:
                await self._end(kill=True)
                if isinstance(error, OSError | EOFError | TimeoutError | msgspec.MsgspecError):
                    raise ForecastError(f"The forecast process failed: {error!r}") from error
                raise
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT, self._end_idle)
        if reply.outlook is None:
            raise ForecastError(f"The forecast failed: {reply.error}")
        return reply.outlook

    async def stop(self) -> None:
        """End the process; every later request fails."""
        self._stopped = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        await self._end(kill=True)
        await asyncio.gather(*self._ending)

    async def _exchange(
        self,
        snapshot: Snapshot,
        asked: list[str] | None,
        times: RunTimes,
        *,
        bounds: tuple[int, float, float],
        diagnosed: list[str],
        stop_of: Callable[[Job], StopTime],
        stopping: list[Stopping],
    ) -> ForecastReply:
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        jobs = snapshot.jobs
        batches = [jobs[first : first + JOBS_PER_BATCH] for first in range(0, len(jobs), JOBS_PER_BATCH)]
        kinds: dict[tuple[float, ...], int] = {}
        contents = []
        for batch in batches:
            kind_of = [kinds.setdefault(past, len(kinds)) if (past := _past(job, times)) else -1 for job in batch]
            stops = [stop_of(job) for job in batch]
            contents.append(framed(msgspec.msgpack.encode(JobBatch(list(batch), kind_of, stops))))
            await asyncio.sleep(0)
        max_waiting, horizon, computing_time = bounds
        request = ForecastRequest(
            snapshot.now,
            snapshot.nodes,
            snapshot.projects,
            snapshot.settings,
            snapshot.recent_use,
            asked,
            list(kinds),
            len(batches),
            max_waiting,
            horizon,
            computing_time,
            diagnosed,
            stopping,
        )
        for content in (framed(msgspec.msgpack.encode(request)), *contents):
            process.stdin.write(content)
            await process.stdin.drain()
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
        return self._replies.decode(await process.stdout.readexactly(length))

    async def _running(self) -> Process:
        if self._stopped:
            raise EOFError("it was stopped")
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, env=environment_of_worker()
        )
        return self._process

    def _end_idle(self) -> None:
        task = asyncio.get_running_loop().create_task(self._end(kill=False))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill and process.returncode is None:
            _kill(process)
        elif process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(END_TIMEOUT):
                await process.wait()
        except TimeoutError:
            _kill(process)
            await process.wait()


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def _past(job: Job, times: RunTimes) -> tuple[float, ...]:
    """Return the run times of jobs like this one, none if the job itself has an expected run time."""
    return times.of_similar_jobs(job) if job.expected is None else ()
