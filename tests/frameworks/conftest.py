"""Jobs that train with real frameworks, by the programs of the docs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import framework_tools
import pytest
from benches.local_bench import LocalBench

import springtide.training
from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, Reported
from springtide.scheduler.model import Worker
from springtide.scheduler.telemetry import discover

PAGE = Path(__file__).parents[2] / "docs/training.md"
ON_PROCESSORS = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "KERAS_BACKEND": "jax"}
"""What the programs are told here, where no GPU is."""
IN_FURTHER_ENVIRONMENT = ("DeepSpeed", "MPI", "TensorFlow")
"""Sections whose frameworks only `make frameworks` installs."""
PAUSE_AFTER = 10.0
"""Step from which on the training is paused."""


def program(section: str) -> str:
    """Return the program of a section of the page about training."""
    _, _, rest = PAGE.read_text().partition(f"\n### {section}\n")
    found = re.search(r"^```py\n(.*?)^```$", rest, re.MULTILINE | re.DOTALL)
    assert found is not None, section
    return found[1]


class PatientBench(LocalBench):
    """Waits for as long as frameworks take to start on a busy machine."""

    patience = 120.0


@dataclass(frozen=True)
class Gangs:
    """Gangs of workers on simulated GPUs, whose programs run in the environment with the frameworks."""

    bench: LocalBench
    library: Path

    def python(self, section: str) -> Path:
        """Return the interpreter that has the framework of a section."""
        further = section in IN_FURTHER_ENVIRONMENT
        return framework_tools.further_interpreter() if further else framework_tools.interpreter()

    def spec(
        self, text: str, job: str, *, workers: int, gpus: int, command: tuple[str, ...], attempt: int = 1
    ) -> AttemptSpec:
        """Return an attempt of a program; ``command`` is what runs its file."""
        placement = tuple(
            Worker(rank, self.bench.train_node, tuple(range(rank * gpus, (rank + 1) * gpus)))
            for rank in range(workers)
        )
        return self.bench.spec(
            (*command, "{code}/train.py"),
            job=job,
            attempt=attempt,
            size=workers,
            placement=placement,
            files={"train.py": text.encode()},
            env={"PYTHONPATH": str(self.library), **ON_PROCESSORS},
        )

    async def train(
        self, section: str, *, workers: int, gpus: int = 1, launcher: tuple[str, ...] = (), to_pause: str = ""
    ) -> str:
        """Train without and with a pause in the middle; return the last line of rank 0, the same of both.

        ``to_pause`` is the program that is paused, if it is not the one of the section.
        """
        command = (str(self.python(section)), *launcher)
        whole = self.spec(program(section), "whole", workers=workers, gpus=gpus, command=command)
        await self.completes(whole)
        last = await self.train_with_pause(
            section, workers=workers, gpus=gpus, launcher=launcher, to_pause=to_pause
        )
        assert await self.last_line("whole") == last
        return last

    async def train_with_pause(
        self, section: str, *, workers: int, gpus: int = 1, launcher: tuple[str, ...] = (), to_pause: str = ""
    ) -> str:
        """Train with a pause in the middle, after which the training goes on; return the last line of rank 0."""
        text, command = to_pause or program(section), (str(self.python(section)), *launcher)
        first = self.spec(text, "paused", workers=workers, gpus=gpus, command=command)
        await self.bench.executor.launch(first)
        await self.bench.until(lambda: self.has_begun(first.key), "some steps")
        await self.bench.executor.pause(first.key)
        ended = (await self.bench.gone(first.key)).exit
        assert ended is not None
        assert (ended.paused, ended.killed) == (True, False), await self.logs(first)
        saved = max(each.saved_step or 0 for each in self.reports(first.key))
        assert saved >= PAUSE_AFTER
        second = self.spec(text, "paused", workers=workers, gpus=gpus, command=command, attempt=2)
        await self.completes(second)
        steps = [each.last.step or 0 for each in self.reports(second.key) if not each.last.began_without]
        assert min(steps) > saved
        return await self.last_line("paused")

    async def last_line(self, job: str) -> str:
        return (await self.bench.log(job)).splitlines()[-1]

    async def completes(self, spec: AttemptSpec) -> None:
        ended = (await self.bench.run(spec)).exit
        assert ended is not None
        assert ended.code == 0, await self.logs(spec)

    async def logs(self, spec: AttemptSpec) -> str:
        """Return what all workers have printed, and the reports of the attempt."""
        printed = [f"rank {rank}:\n{await self.bench.log(spec.key.job, rank)}" for rank in range(spec.workers)]
        return "\n".join([*printed, *map(str, self.reports(spec.key)[-3:])])

    def reports(self, key: AttemptKey) -> list[Reported]:
        return [each for each in self.bench.of_kind(Reported) if each.key == key]

    def has_begun(self, key: AttemptKey) -> bool:
        return any((each.last.step or 0) > PAUSE_AFTER for each in self.reports(key))


@pytest.fixture
async def gangs(tmp_path: Path) -> AsyncIterator[Gangs]:
    library = tmp_path / "library"
    (library / "springtide").mkdir(parents=True)
    (library / "springtide/training").symlink_to(Path(springtide.training.__file__).parent)
    bench = PatientBench(tmp_path / "state", discover(simulated=11, build_gpus=3))
    await bench.open()
    yield Gangs(bench, library)
    await bench.close()
