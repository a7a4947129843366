"""Discovery of this machine's GPUs: real ones, or simulated ones where there are none."""

from __future__ import annotations

from springtide.scheduler.telemetry import nvml
from springtide.scheduler.telemetry.machine import Machine, SimulatedMachine, TelemetryError

MAX_SIMULATED = 4096
"""Maximum number of simulated GPUs."""
DEFAULT_SIMULATED_TRAIN = 8
"""Number of simulated train GPUs on a machine without real GPUs."""


def discover(simulated: int | None = None, build_gpus: int = 0) -> Machine:
    """Return this machine, with ``build_gpus`` of its GPUs for notebooks and the others for jobs.

    Its GPUs are ``simulated`` ones if that is a number, else those that NVML finds, else `DEFAULT_SIMULATED_TRAIN`
    plus ``build_gpus`` simulated ones. Raises `TelemetryError` if there are fewer GPUs than ``build_gpus``, or if
    ``simulated`` is out of range.
    """
    if simulated is None:
        devices = nvml.devices()
        if devices:
            return nvml.NvmlMachine(devices, build_gpus)
        simulated = DEFAULT_SIMULATED_TRAIN + build_gpus
    if not 0 < simulated <= MAX_SIMULATED:
        raise TelemetryError(f"Between 1 and {MAX_SIMULATED} GPUs can be simulated, not {simulated}.")
    return SimulatedMachine(simulated, build_gpus)


def count_gpus() -> int:
    """Return the number of real GPUs that NVML finds, 0 where there is no driver."""
    return len(nvml.devices())
