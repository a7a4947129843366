"""A pool of real processes whose service is started again on GPUs that are listed otherwise."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from machines.numbered_machine import NumberedMachine, gpus_by_process
from patience import PATIENCE_S
from stores.new_store import open_store

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings, open_engine
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.model import Settings
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.queries import reading

UUIDS = [f"GPU-{letter * 8}" for letter in "abcdefgh"]
WAITS = """
import os, sys, time
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
while not os.path.exists(sys.argv[1]) and not os.path.exists(os.environ["SPRINGTIDE_PAUSE_FILE"]):
    time.sleep(0.02)
sys.exit(75 if os.path.exists(os.environ["SPRINGTIDE_PAUSE_FILE"]) else 0)
"""


class RestartedPool:
    """A pool of real processes whose service is started again on GPUs that are listed otherwise."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine: Any = None

    async def start(self, machine: NumberedMachine, settings: EngineSettings | None = None) -> None:
        self.store = open_store(self.path)
        self.executor = LocalExecutor(self.path, machine)
        settings = settings or EngineSettings(policy=Settings(grace=10.0))
        projects = {"susan": {"build_quota": 8}}
        self.engine = await open_engine(self.store, self.executor, settings, projects=projects)

    async def restart(self, machine: NumberedMachine, settings: EngineSettings | None = None) -> None:
        await self.engine.stop()
        self.store.close()
        await self.start(machine, settings)

    async def submit(self, gpus: int = 1, **more: Any) -> str:
        argv = [sys.executable, "-S", "{code}/train.py", str(self.path / "go")]
        submission = wire.Submission(argv=argv, files={"train.py": WAITS.encode()}, gpus=gpus, **more)
        return str((await self.engine.submit(submission, "susan", "susan")).id)

    async def until(self, job: str, *states: str, attempt: int | None = None) -> wire.Job:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found: wire.Job = await self.engine.job(job)
                if found.state in states and attempt in (None, found.attempt):
                    return found
                await asyncio.sleep(0.02)

    async def running(self, *jobs: str, attempt: int = 1) -> dict[str, list[str]]:
        """Wait until the processes of these jobs are there; return the GPUs of all jobs by their environments."""
        for job in jobs:
            await self.until(job, "running", attempt=attempt)
        async with asyncio.timeout(PATIENCE_S):
            while not {f"{job}.{attempt}" for job in jobs} <= gpus_by_process(self.path).keys():
                await asyncio.sleep(0.02)
        return gpus_by_process(self.path)

    async def settled(self) -> dict[str, list[str]]:
        """Return the GPUs of all jobs by their environments, once nothing more is decided or started."""
        await self.engine.idle()
        for job in self.store.read(reading.load).jobs:
            if job.live is not None and job.live.started is None:
                await self.until(job.id, "running", "succeeded")
        await self.engine.idle()
        return gpus_by_process(self.path)

    async def close(self) -> None:
        (self.path / "go").touch()
        for job in self.store.read(reading.load).jobs:
            with suppress(Refusal):
                await self.engine.cancel(job.id, "test")
        for job in self.store.read(reading.load).jobs:
            await self.until(job.id, "cancelled", "succeeded", "failed")
        await self.engine.stop()
        self.store.close()
