"""TensorBoards of this notebook server: programs of its user, each for some jobs, ended when unused."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import httpx
import msgspec

from springtide.widgets.tensorboard.said import PROGRAM, Said

MOST: Final = 4
"""Maximum number of TensorBoards at a time; a further one ends the one that was used the longest ago."""
UNUSED_S: Final = 1800.0
"""Time without a request after which a TensorBoard ends, in seconds."""
LOOK_S: Final = 10.0
END_S: Final = 5.0
"""Time for a TensorBoard to end before it is killed, in seconds."""
ANSWER_S: Final = 60.0
LOST: Final = Said("failed", "TensorBoard has ended unexpectedly. The log of the notebook server may say why.")

log = logging.getLogger("springtide")


class Board:
    """A TensorBoard of some jobs, from the start of its program on."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.said = Said("reading", "Starting TensorBoard…")
        self.used = time.monotonic()
        self.told = False
        """Whether its user has seen the notes on what it does not show."""
        self.http: httpx.AsyncClient | None = None
        """Requests to it, once it is ready."""
        self._process = process
        self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            try:
                self.said = msgspec.json.decode(line, type=Said)
            except msgspec.DecodeError:
                log.warning("TensorBoard printed %r.", line[:200])
                continue
            if self.said.state == "ready":
                transport = httpx.AsyncHTTPTransport(uds=self.said.socket)
                self.http = httpx.AsyncClient(transport=transport, base_url="http://tensorboard", timeout=ANSWER_S)
        await self._process.wait()
        if self.said.state != "failed":
            self.said = LOST

    async def end(self) -> None:
        """End the program; its copies of the jobs' files go with it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._following, END_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self.http is not None:
            await self.http.aclose()


class Boards:
    """The TensorBoards of one notebook server, whose programs get its ``environment``."""

    def __init__(self, environment: Mapping[str, str], unused_s: float = UNUSED_S) -> None:
        self._environment = environment
        self._unused_s = unused_s
        self._boards: dict[str, Board] = {}
        self._starting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    def known(self, jobs: str) -> Board | None:
        """Return the TensorBoard of the jobs if it was started, as used just now."""
        board = self._boards.get(jobs)
        if board is not None:
            board.used = time.monotonic()
        return board

    async def open(self, jobs: str) -> Board:
        """Return the TensorBoard of the jobs, whose ids have dashes between them, started unless it was."""
        async with self._starting:
            known = self.known(jobs)
            if known is not None:
                return known
            while len(self._boards) >= MOST:
                await self._end(min(self._boards, key=lambda each: self._boards[each].used))
            board = Board(
                await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", PROGRAM, *jobs.split("-")),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    env=dict(self._environment),
                )
            )
            self._boards[jobs] = board
            if self._watching is None or self._watching.done():
                self._watching = asyncio.create_task(self._watch())
            return board

    async def forget(self, jobs: str) -> None:
        """End the TensorBoard of the jobs, if there is one."""
        async with self._starting:
            await self._end(jobs)

    async def _end(self, jobs: str) -> None:
        board = self._boards.pop(jobs, None)
        if board is not None:
            await board.end()

    async def _watch(self) -> None:
        """End unused boards, until there is nothing left."""
        while self._boards:
            await asyncio.sleep(min(LOOK_S, self._unused_s))
            now = time.monotonic()
            for jobs in [name for name, each in self._boards.items() if now - each.used >= self._unused_s]:
                await self.forget(jobs)
