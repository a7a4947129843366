"""Description of the machine of a measurement, and percentiles."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe() -> str:
    """Return processor, cores, memory and versions in one line."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"
    )


def percentile(values: list[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
