"""What the machine has: GPUs as nodes, and who computes on them."""

from springtide.scheduler.telemetry.machine import Machine, TelemetryError, count_gpus, discover

__all__ = ["Machine", "TelemetryError", "count_gpus", "discover"]
