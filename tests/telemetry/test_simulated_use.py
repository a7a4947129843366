"""The readings of simulated GPUs: the processor time and the memory of their processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benches.executor_bench import SLEEPS
from benches.local_bench import LocalBench

from springtide.scheduler.telemetry import Computing, GpuSample
from springtide.scheduler.telemetry.machine import SimulatedMachine

GPUS = ("SIM-00000000", "SIM-00000001")
COMPUTES_HALF_A_SECOND = """
import resource
def used():
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
while input() == "compute":
    start = used()
    while used() < start + 0.5:
        pass
    print("done", flush=True)
"""


class Attempt:
    """A process in the place of a supervisor, with a worker below it that computes on request."""

    def __init__(self) -> None:
        worker = [sys.executable, "-S", "-c", COMPUTES_HALF_A_SECOND]
        code = f"import subprocess; subprocess.run({worker!r}); input()"
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._told, self._said = self.process.stdin, self.process.stdout

    def compute(self) -> None:
        self._told.write("compute\n")
        assert self._said.readline() == "done\n"

    def end(self) -> None:
        self.process.kill()
        self._told.close()
        self._said.close()
        self.process.wait()


class Clock:
    """Time that moves only by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def attempt() -> Iterator[Attempt]:
    attempt = Attempt()
    yield attempt
    attempt.end()


def test_a_simulated_gpu_is_used_as_its_processes_use_the_processor(attempt: Attempt) -> None:
    clock = Clock()
    machine = SimulatedMachine(4, 0, clock=clock)
    computing = Computing(attempt.process.pid, GPUS, workers=1)
    attempt.compute()
    first = machine.samples([computing])
    assert [(sample.uuid, sample.simulated, sample.reading.utilization) for sample in first] == [
        (uuid, True, None) for uuid in GPUS
    ]
    assert all(sample.reading.memory_used for sample in first)
    clock.now = 10.0
    assert [sample.reading.utilization for sample in machine.samples([computing])] == [
        pytest.approx(0, abs=0.01)
    ] * 2
    attempt.compute()
    clock.now = 20.0
    assert [sample.reading.utilization for sample in machine.samples([computing])] == [
        pytest.approx(0.05, abs=0.02)
    ] * 2


def test_workers_share_what_their_attempt_uses_and_none_is_used_more_than_whole(attempt: Attempt) -> None:
    for workers, passed, expected in ((2, 10.0, 0.025), (1, 0.1, 1.0)):
        clock = Clock()
        machine = SimulatedMachine(4, 0, clock=clock)
        computing = Computing(attempt.process.pid, GPUS, workers)
        machine.samples([computing])
        attempt.compute()
        clock.now = passed
        assert machine.samples([computing])[0].reading.utilization == pytest.approx(expected, abs=0.015)


def test_a_simulated_gpu_that_nobody_holds_reports_nothing() -> None:
    machine = SimulatedMachine(4, 0)
    assert machine.samples([]) == []
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert machine.samples([Computing(gone.pid, GPUS, 1)]) == []


async def test_the_executor_samples_the_gpus_of_its_attempts(tmp_path: Path) -> None:
    bench = LocalBench(tmp_path / "state", SimulatedMachine(4, 1))
    await bench.open()
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    held = [gpu for gpu in bench.machine.nodes[1].devices if gpu.index in spec.placement[0].gpus]
    samples = await bench.executor.gpu_samples({})
    assert [sample.uuid for sample in samples] == [gpu.uuid for gpu in held]
    assert all(isinstance(sample, GpuSample) and sample.simulated for sample in samples)
    assert os.sysconf("SC_PAGE_SIZE") < (samples[0].reading.memory_used or 0)
    await bench.close()
