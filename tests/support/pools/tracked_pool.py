"""A pool on this machine whose reports are forwarded, and which can be stopped and started as at a restart."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from patience import PATIENCE_S
from stores.new_store import open_store

from springtide.hub_extension.tracking.forwarder import Forwarder
from springtide.hub_extension.tracking.tracker import Tracker, TrackingSettings
from springtide.hub_extension.tracking.trackers import open_trackers
from springtide.scheduler import wire
from springtide.scheduler.backoff import Backoff, no_jitter
from springtide.scheduler.engine import EngineSettings, open_engine
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.model import Settings
from springtide.scheduler.telemetry import discover

REPORTS = """
import json, os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
upto = Path(sys.argv[1])
saved = Path(os.environ["SPRINGTIDE_CHECKPOINT_DIR"], "step")
step = int(saved.read_text()) if saved.exists() else 0
while step < int(sys.argv[2]):
    if Path(os.environ["SPRINGTIDE_PAUSE_FILE"]).exists():
        saved.write_text(str(step))
        sys.exit(75)
    if step >= int(upto.read_text()):
        time.sleep(0.02)
        continue
    step += 1
    line = {"at": time.time(), "attempt": int(os.environ["SPRINGTIDE_ATTEMPT"]), "step": step,
            "values": {"loss": 1 / step, "val/acc @1": step, "lost": "NaN"}}
    line["values"].update((f"layer {n}", n) for n in range(int(sys.argv[3])))
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as file:
        file.write(json.dumps(line) + "\\n")
"""
"""Reports its steps up to the number in a file, and ends with the last of them; a pause keeps its step."""


class TrackedPool:
    """The pool; ``settings`` say what its reports are forwarded to."""

    def __init__(self, path: Path, settings: TrackingSettings) -> None:
        self.path = path
        self.settings = settings
        self.trackers: Sequence[Tracker] = ()

    async def start(self) -> None:
        """Start the service's part of it."""
        self._store = open_store(self.path)
        executor = LocalExecutor(self.path, discover(3, 1))
        policy = EngineSettings(policy=Settings(grace=10.0, min_runtime=0.0))
        self.engine = await open_engine(self._store, executor, policy, projects={"vision": {"quota": 2}})
        self.trackers = open_trackers(self.settings)
        self._tasks = [
            asyncio.create_task(
                Forwarder(self.engine, each, interval=0.05, backoff=Backoff(0.05, 0.1, jitter=no_jitter)).run()
            )
            for each in self.trackers
        ]

    async def stop(self) -> None:
        """Stop it; its jobs keep running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for tracker in self.trackers:
            await tracker.close()
        await self.engine.stop()
        self._store.close()

    async def submit(self, name: str, *, upto: int, last: int, layers: int = 0) -> wire.Job:
        """Submit a job that reports ``last`` steps, and waits after ``upto`` of them for `let`."""
        file = self.path / name.replace("/", "_")
        file.write_text(str(upto))
        argv = [sys.executable, "{code}/train.py", str(file), str(last), str(layers)]
        submission = wire.Submission(
            argv=argv, files={"train.py": REPORTS.encode()}, gpus=1, name=name, tags=("baseline",)
        )
        return await self.engine.submit(submission, "susan", "vision")

    def let(self, name: str, upto: int) -> None:
        """Let a job report up to this step."""
        new = self.path / "upto.new"
        new.write_text(str(upto))
        new.replace(self.path / name.replace("/", "_"))

    async def until(self, job_id: str, wanted: Callable[[wire.Job], bool]) -> wire.Job:
        """Return the job as soon as it is as wanted."""
        async with asyncio.timeout(PATIENCE_S):
            while not wanted(job := await self.engine.job(job_id)):
                await asyncio.sleep(0.02)
            return job
