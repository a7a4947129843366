"""Discovery of this machine's GPUs: real ones, or simulated ones if there are none."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.resources.per_gpu import per_gpu_of
from springtide.scheduler.telemetry import nvml
from springtide.scheduler.telemetry.machine import GpuCount, Machine, SimulatedMachine, TelemetryError
from springtide.scheduler.telemetry.network_cards import network_cards
from springtide.scheduler.telemetry.processor import machine_capacity

MAX_SIMULATED = 4096
"""Maximum number of simulated GPUs."""
DEFAULT_SIMULATED_TRAIN = 8
"""Number of simulated train GPUs on a machine without real GPUs."""


def discover(
    simulated: GpuCount | None = None,
    build_gpus: GpuCount = 0,
    types: DeclaredTypes | None = None,
    *,
    root: Path = Path("/"),
) -> Machine:
    """Return this machine, with ``build_gpus`` of its GPUs for notebooks and the others for jobs.

    Each GPU comes with an equal part of the machine's cores and of its memory, a simulated one with no known part.
    If the machine, whose files are below ``root``, has a network card with RDMA that processes can open, all
    workers may use it.

    Its GPUs are ``simulated`` ones if that is given, as a number or as a number for each type; else those that
    NVML finds, else `DEFAULT_SIMULATED_TRAIN` plus ``build_gpus`` simulated ones. Raises `TelemetryError` if there
    are fewer GPUs than ``build_gpus``, or if ``simulated`` is out of range.
    """
    machine = _found(simulated, build_gpus, types, root)
    if any(card.usable for card in network_cards(root)):
        machine.nodes = tuple(
            replace(node, per_gpu=node.per_gpu._replace(rdma=1.0)) if node.gpus else node for node in machine.nodes
        )
    return machine


def _found(simulated: GpuCount | None, build_gpus: GpuCount, types: DeclaredTypes | None, root: Path) -> Machine:
    if simulated is None:
        devices = nvml.devices(root)
        if devices:
            return _with_per_gpu(nvml.NvmlMachine(devices, build_gpus, types))
        simulated = (
            DEFAULT_SIMULATED_TRAIN + build_gpus
            if isinstance(build_gpus, int)
            else {name: DEFAULT_SIMULATED_TRAIN + number for name, number in build_gpus.items()}
        )
    numbers = [simulated] if isinstance(simulated, int) else list(simulated.values())
    if min(numbers, default=0) < 1 or sum(numbers) > MAX_SIMULATED:
        number = simulated if isinstance(simulated, int) else dict(simulated)
        raise TelemetryError(f"Between 1 and {MAX_SIMULATED} GPUs can be simulated, not {number}.")
    return SimulatedMachine(simulated, build_gpus, types)


def _with_per_gpu(machine: Machine) -> Machine:
    capacity = machine_capacity()
    per_gpu = per_gpu_of(*capacity, sum(node.gpus for node in machine.nodes))
    machine.nodes = tuple(replace(node, per_gpu=per_gpu) for node in machine.nodes)
    return machine


def count_gpus() -> int:
    """Return the number of real GPUs that NVML finds, 0 if there is no driver."""
    return len(nvml.devices())
