"""The cost of measuring GPUs: ``python benchmarks/bench_telemetry.py``.

The GPUs of this machine are read by NVML; if there are none, eight that a C library answers for, so that the
figure of NVML lacks what the driver itself costs. Simulated GPUs are read from the process table as it is. The
readings are written to a store on disk, which holds a tenth of a day of earlier ones.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pynvml
from machine import describe

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from machines.nvml_library import Driver, build

from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.store import Store, gpu_usage_writing
from springtide.scheduler.store.gpu_usage import DAY, FINE, HOUR, UsageKey, UsageRecord
from springtide.scheduler.telemetry import Computing, Machine, count_gpus, discover
from springtide.scheduler.telemetry.agent.collector import Collector
from springtide.scheduler.telemetry.agent.pod_resources import PodDevices
from springtide.scheduler.telemetry.agent.report import decode, encode
from springtide.scheduler.telemetry.machine import SimulatedMachine

GPUS = 8
RESOURCE = "nvidia.com/gpu"
EVERY_S = 10.0
READINGS = 200
MOST = 0.005
"""Maximum share of a core that eight GPUs may cost."""


def cost(work: Callable[[], object]) -> float:
    """Return the processor time of one reading, in seconds."""
    work()
    start = time.process_time()
    for _ in range(READINGS):
        work()
    return (time.process_time() - start) / READINGS


def report(name: str, machine: Machine, computing: list[Computing]) -> float:
    """Print the cost of reading a machine's GPUs, and return it as a share of a core."""
    return print_share(name, cost(lambda: machine.samples(computing)))


def print_share(name: str, seconds: float) -> float:
    """Print the cost per interval, and return it as a share of a core."""
    share = seconds / EVERY_S
    print(f"{name:34}  {1e3 * seconds:7.3f} ms each, every {EVERY_S:.0f} s: {share:9.4%} of a core", flush=True)
    return share


def main() -> int:
    """Print the costs; return 1 if one is too high."""
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        if not count_gpus():
            library = build(Path(folder))
            driver = Driver(Path(folder) / "state", library)
            driver.add(GPUS)
            os.environ |= driver.environment
            pynvml.nvmlLib = ctypes.CDLL(str(library))
        gpus = count_gpus()
        shares = [
            agent(f"agent of a node, {gpus} GPUs by NVML"),
            report(f"{gpus} GPUs by NVML", discover(), []),
            report(f"{GPUS} simulated GPUs, 1 attempt", SimulatedMachine(GPUS, 0), [attempt(range(GPUS))]),
        ]
        writing = store_cost(Path(folder))
    total = max(shares) + writing
    print(f"together at most {total:.4%} of a core; {MOST:.1%} are allowed")
    return 0 if total < MOST else 1


class Kubelet:
    """Answers as a kubelet whose GPUs are all assigned to pods of one GPU each; asking a real one costs more."""

    def __init__(self, uuids: list[str]) -> None:
        self._uuids = uuids

    def assigned(self) -> list[PodDevices]:
        return [PodDevices("jobs", f"st-digits-{n}-0", {RESOURCE: (uuid,)}) for n, uuid in enumerate(self._uuids)]

    def offered(self) -> dict[str, tuple[str, ...]]:
        return {RESOURCE: tuple(self._uuids)}


def agent(name: str) -> float:
    """Print the cost of an agent's report, and of taking it in; return that of the agent as a share of a core."""
    uuids = [gpu.uuid for node in discover().nodes for gpu in node.devices]
    times = count(0.0, EVERY_S)
    collector = Collector(Kubelet(uuids), lambda: next(times))
    share = print_share(name, cost(lambda: encode(collector.report())))
    data = encode(collector.report())
    print_share("take in the report of an agent", cost(lambda: decode(data)))
    return share


def store_cost(folder: Path) -> float:
    """Print the cost of writing the readings, and return it as a share of a core."""
    store = Store.open(f"sqlite:///{folder / 'store.sqlite'}", folder)
    intervals = iter(range(1_000 * HOUR, 2_000 * HOUR, FINE))

    def save() -> None:
        at = next(intervals)
        store.write(gpu_usage_writing.save, [record(at, gpu) for gpu in range(GPUS)], at + FINE)

    for _ in range(DAY // FINE // 10):
        save()
    share = print_share(f"store what {GPUS} GPUs reported", cost(save))
    store.close()
    return share


def record(at: int, gpu: int) -> UsageRecord:
    """Return the use of a GPU in an interval."""
    key = UsageKey(f"GPU-{gpu}", kind="job", job="digits", user="susan", project="vision")
    reading = Reading(utilization=0.5, memory_used=1 << 30)
    return UsageRecord(step=FINE, at=at, seconds=FINE, key=key, reading=reading)


def attempt(gpus: range) -> Computing:
    """Return this process as an attempt that holds simulated GPUs."""
    return Computing(os.getpid(), [f"SIM-{index:08d}" for index in gpus], 1)


if __name__ == "__main__":
    sys.exit(main())
