"""The process that looks ahead, as the engine holds it: started when asked for, ended when nobody asks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

import msgspec

from springtide.scheduler.engine.run_times import RunTimes
from springtide.scheduler.forecast import Outlook
from springtide.scheduler.foresee import LENGTH_BYTES, Answer, Batch, Question, framed
from springtide.scheduler.model import Snapshot

COMMAND = (sys.executable, "-P", "-m", "springtide.scheduler.foresee")
PRIVATE = ("JUPYTERHUB_", "SPRINGTIDE_", "CONFIGPROXY_")
"""What the process has no use for starts with one of these."""
AT_ONCE = 200
"""Jobs written at once; between them the engine goes on."""
PATIENCE = 120.0
"""Seconds after which a question that was not answered is given up."""
IDLE = 120.0
"""Seconds without a question after which the process ends."""
LEAVE = 2.0


class ForeseeError(Exception):
    """The future could not be looked at; the message is for the log."""


class Foreseer:
    """Asks one question at a time. Its process ends with `stop`, and when nobody asked for a while."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._answers = msgspec.msgpack.Decoder(Answer)

    async def ask(
        self,
        snapshot: Snapshot,
        asked: list[str] | None,
        times: RunTimes,
        *,
        most: int,
        horizon: float,
        budget: float,
    ) -> Outlook:
        """The outlook from a snapshot. Raises `ForeseeError`."""
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            try:
                async with asyncio.timeout(PATIENCE):
                    reply = await self._asked(snapshot, asked, times, (most, horizon, budget))
            except BaseException as error:
                await self._end(kill=True)
                if isinstance(error, OSError | EOFError | TimeoutError | msgspec.MsgspecError):
                    raise ForeseeError(f"The process that looks ahead failed: {error!r}") from error
                raise
            self._idle = asyncio.get_running_loop().call_later(IDLE, self._rest)
        if reply.outlook is None:
            raise ForeseeError(f"Looking ahead failed: {reply.error}")
        return reply.outlook

    async def stop(self) -> None:
        """End the process for good."""
        self._stopped = True
        if self._idle is not None:
            self._idle.cancel()
        await self._end(kill=True)
        await asyncio.gather(*self._ending)

    async def _asked(
        self, snapshot: Snapshot, asked: list[str] | None, times: RunTimes, bounds: tuple[int, float, float]
    ) -> Answer:
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        jobs = snapshot.jobs
        batches = [jobs[first : first + AT_ONCE] for first in range(0, len(jobs), AT_ONCE)]
        kinds: dict[tuple[float, ...], int] = {}
        contents = []
        for batch in batches:
            places = [kinds.setdefault(past, len(kinds)) if (past := times.like(job)) else -1 for job in batch]
            contents.append(framed(msgspec.msgpack.encode(Batch(list(batch), places))))
            await asyncio.sleep(0)
        most, horizon, budget = bounds
        question = Question(
            snapshot.now,
            snapshot.nodes,
            snapshot.projects,
            snapshot.settings,
            asked,
            list(kinds),
            len(batches),
            most,
            horizon,
            budget,
        )
        for content in (framed(msgspec.msgpack.encode(question)), *contents):
            process.stdin.write(content)
            await process.stdin.drain()
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
        return self._answers.decode(await process.stdout.readexactly(length))

    async def _running(self) -> Process:
        if self._stopped:
            raise EOFError("it was stopped")
        if self._process is not None and self._process.returncode is None:
            return self._process
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, env=environment
        )
        return self._process

    def _rest(self) -> None:
        task = asyncio.get_running_loop().create_task(self._end(kill=False))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        elif process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(LEAVE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
