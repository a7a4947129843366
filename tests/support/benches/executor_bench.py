"""The common test bench of all executors, and the programs that its attempts run."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from jobs.job_options import with_options
from patience import PATIENCE_S

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptSpec,
    AttemptStatus,
    Executor,
    Observation,
)
from springtide.scheduler.model import Worker

T = TypeVar("T", bound=Observation)

LOOK_AGAIN_S = 0.1
"""Time after which a condition is looked at although nothing was observed, in seconds."""
READY = "import os, signal, sys, time\nprint('ready', flush=True)\n"
SLEEPS = f"{READY}time.sleep(600)"
STUBBORN = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SLEEPS}"
LOCKSTEP = """
from springtide.training import current_job
import time
job = current_job()
meet = job.checkpoint_directory
for step in range(1, 100000):
    (meet / f"{step}.{job.rank}").touch()
    while not all((meet / f"{step}.{rank}").exists() for rank in range(job.world)):
        time.sleep(0.001)
    job.report(step=step)
    if job.should_pause():
        job.save(step, step=step)
        print(step)
        job.exit_for_pause()
"""
RESUMES = """
from springtide.training import current_job
import time
job = current_job()
found = job.restore()
done = found.state["done"] if found else 0
print("from", done, flush=True)
for step in range(done + 1, 100000):
    time.sleep(0.1)
    job.report(step=step, loss=1 / step)
    if found and step >= done + 3:
        break
    if job.should_pause():
        job.save({"done": step}, step=step)
        job.exit_for_pause()
"""
SAVES = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))\n" + SLEEPS
SAVES_SLOWLY = """
import os, signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append("asked"))
print("ready", flush=True)
while not (asked and os.path.exists(os.path.join(os.path.dirname(os.environ["SPRINGTIDE_PAUSE_FILE"]), "kill"))):
    time.sleep(0.01)
time.sleep(1.0)
sys.exit(74 + len(asked))
"""
"""Begins to save once it is to end for good, and takes longer than the tests' time between SIGTERM and SIGKILL.

Its exit code is 75 if it was asked once.
"""
ENDS_WHEN_ASKED = (
    """
import json, os, signal, sys
with open(os.environ["SPRINGTIDE_REPORT"], "a") as file:
    for line in {lines}:
        print(json.dumps({{"attempt": int(os.environ["SPRINGTIDE_ATTEMPT"]), **line}}), file=file)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
"""
    + SLEEPS
)


class Bench(ABC):
    """A running executor, and all observations that it reported.

    ``names_gpus`` says whether workers get the names of their GPUs: on a cluster, the node's device plugin does
    that, if there is one. ``patience`` is how long it waits for anything, in seconds.
    """

    executor: Executor
    names_gpus = True
    patience = PATIENCE_S

    def __init__(self) -> None:
        self.seen: list[Observation] = []
        self._news = asyncio.Event()
        self.executor = self.make()

    @abstractmethod
    def make(self) -> Executor:
        """Return a new executor on the same state."""

    @property
    def python(self) -> str:
        """Path of the interpreter for jobs."""
        return sys.executable

    async def open(self) -> None:
        await self.executor.start(self._hear)

    async def restart(self) -> None:
        """Stop the executor and start a new one on the same state."""
        await self.executor.stop()
        self.executor = self.make()
        await self.open()

    async def close(self) -> None:
        """End all running attempts."""
        for status in await self.executor.attempts():
            if status.phase is not AttemptPhase.GONE:
                await self.executor.kill(status.key, now=True)
        for status in await self.executor.attempts():
            await self.gone(status.key)
        await self.executor.stop()

    def _hear(self, observation: Observation) -> None:
        self.seen.append(observation)
        self._news.set()

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until the condition holds for the observations, or for anything else, which is looked at again."""
        try:
            async with asyncio.timeout(self.patience):
                while not (value := condition()):
                    await self._hear_or_look_again()
        except TimeoutError:
            raise AssertionError(f"waited in vain for {what}; seen: {self.seen[-5:]}") from None
        return value

    async def _hear_or_look_again(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await self._news.wait()
        self._news.clear()

    def of_kind(self, kind: type[T]) -> list[T]:
        return [each for each in self.seen if isinstance(each, kind)]

    async def status(self, key: AttemptKey) -> AttemptStatus | None:
        return {status.key: status for status in await self.executor.attempts()}.get(key)

    async def gone(self, key: AttemptKey) -> AttemptStatus:
        """Wait for the attempt's end."""
        known = await self.status(key)
        if known is not None and known.phase is AttemptPhase.GONE:
            return known
        found: AttemptStatus = await self.until(
            lambda: next(
                (each for each in self.of_kind(AttemptStatus) if each.key == key and each.phase == "gone"), None
            ),
            f"the end of {key}",
        )
        return found

    async def running(self, key: AttemptKey, says: bytes = b"ready\n", rank: int = 0) -> None:
        """Wait until the attempt runs and its log contains a text: a whole line, which may arrive in pieces."""
        try:
            async with asyncio.timeout(self.patience):
                while True:
                    status = await self.status(key)
                    said = (await self.log(key.job, rank)).encode()
                    if status is not None and status.phase is AttemptPhase.RUNNING and says in said:
                        return
                    assert status is None or status.phase is not AttemptPhase.GONE, f"{key} ended: {status.exit}"
                    await self._hear_or_look_again()
        except TimeoutError:
            raise AssertionError(f"{key} does not run; seen: {self.seen[-5:]}") from None

    async def log(self, job: str, rank: int = 0) -> str:
        """Return the output of a worker in all attempts."""
        text, offset = b"", 0
        while (piece := await self.executor.read_log(job, rank, offset, 1 << 22)).data:
            text += piece.data
            offset = piece.offset + len(piece.data)
        return text.decode()

    @property
    def train_node(self) -> str:
        """Node that attempts run on."""
        return "train"

    def spec(
        self, argv: Sequence[str], *, job: str = "job", attempt: int = 1, size: int = 1, **more: Any
    ) -> AttemptSpec:
        """Return an attempt of ``size`` workers with one GPU each."""
        placement = tuple(Worker(rank, self.train_node, (rank,)) for rank in range(size))
        given: dict[str, Any] = {
            "epoch": 1,
            "name": "a job",
            "project": "vision",
            "user": "susan",
            "workers": size,
            "grace": 20.0,
            "placement": placement,
            **more,
        }
        return with_options(AttemptSpec, key=AttemptKey(job, attempt), argv=tuple(argv), **given)

    def code(self, text: str, **more: Any) -> AttemptSpec:
        """Return an attempt that runs Python code."""
        return self.spec((self.python, "-S", "-c", text), **more)

    async def run(self, spec: AttemptSpec) -> AttemptStatus:
        """Launch an attempt and wait for its end."""
        await self.executor.launch(spec)
        return await self.gone(spec.key)


async def read_output(executor: Executor, job: str, name: str, limit: int) -> bytes | None:
    """Return the content of a file of the job's output directory."""
    file = await executor.open_output(job, name, limit)
    if file is None:
        return None
    with file:
        return file.read()
