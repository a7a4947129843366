"""The GPUs of a machine as nodes, and the processes that compute on them."""

from springtide.scheduler.telemetry.discovery import count_gpus, discover
from springtide.scheduler.telemetry.machine import GpuCount, Machine, TelemetryError

__all__ = ["GpuCount", "Machine", "TelemetryError", "count_gpus", "discover"]
