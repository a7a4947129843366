"""The GPUs of a machine as nodes, the processes that compute on them, and what they report."""

from springtide.scheduler.telemetry.discovery import DEFAULT_SIMULATED_TRAIN, count_gpus, discover
from springtide.scheduler.telemetry.machine import GpuCount, Machine, TelemetryError
from springtide.scheduler.telemetry.sample import Computing, GpuSample

__all__ = [
    "DEFAULT_SIMULATED_TRAIN",
    "Computing",
    "GpuCount",
    "GpuSample",
    "Machine",
    "TelemetryError",
    "count_gpus",
    "discover",
]
