"""A running local executor, for tests."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from benches.executor_bench import Bench
from machines.processes import alive
from patience import PATIENCE_S

from springtide.scheduler.executors.accounts import Accounts
from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.telemetry import Machine, discover

FORKS_AWAY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {more}
        os.write(1, b"%d\\n" % os.getpid())
        os.write(tell, b".")
        time.sleep(600)
    os.read(told, 1)
    os._exit(0)
os.wait()
{then}
"""
"""Program that leaves a process in a session of its own, which does ``more`` and prints its pid; then ``then``."""


class LocalBench(Bench):
    """The bench with eleven simulated GPUs; ``options`` are those of `LocalExecutor`."""

    executor: LocalExecutor

    def __init__(self, state: Path, machine: Machine | None = None, **options: Any) -> None:
        self.state = state
        self.machine = machine or discover(simulated=11, build_gpus=3)
        self.options = options
        super().__init__()

    def make(self) -> LocalExecutor:
        return LocalExecutor(self.state, self.machine, **self.options)

    def directory(self, key: AttemptKey) -> Path:
        """Return the attempt's directory."""
        return self.state / "jobs" / key.job / "attempts" / str(key.attempt)

    def supervisor(self, key: AttemptKey) -> int:
        """Return the pid of the attempt's supervisor."""
        return int(json.loads((self.directory(key) / "supervisor.json").read_text())["pid"])

    async def pids(self, job: str, count: int = 1, rank: int = 0) -> list[int]:
        """Wait until the job has printed ``count`` numbers, and return them."""
        found: list[int] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while len(found) < count:
                    await asyncio.sleep(0.02)
                    found = [int(word) for word in (await self.log(job, rank)).split() if word.isdigit()]
        log, known = await self.log(job, rank), await self.executor.attempts()
        assert len(found) >= count, f"{count} numbers were expected; the log has {log!r}; {known}"
        return found


@asynccontextmanager
async def account_bench() -> AsyncIterator[LocalBench]:
    """Yield a started executor whose jobs run as their users' accounts, which may enter its state directory."""
    with tempfile.TemporaryDirectory(prefix="springtide-test-") as directory:
        state = Path(directory)
        state.chmod(0o711)
        bench = LocalBench(state, accounts=Accounts(state))
        await bench.open()
        yield bench
        await bench.close()


async def dead(pid: int) -> None:
    """Wait until a process has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while alive(pid):
            await asyncio.sleep(0.02)


async def appears(path: Path) -> None:
    """Wait until a file exists."""
    async with asyncio.timeout(PATIENCE_S):
        while not path.exists():
            await asyncio.sleep(0.02)
