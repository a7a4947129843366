"""The NVIDIA driver's library NVML, initialized once for the process."""

from __future__ import annotations

import threading
from contextlib import suppress

try:
    import pynvml
except ImportError:
    pynvml = None

__all__ = ["pynvml", "start", "text"]

_lock = threading.Lock()
_started = False


def start() -> bool:
    """Initialize NVML once; return False where there is no driver or no GPU."""
    global _started  # noqa: PLW0603 - NVML itself is one per process
    with _lock:
        if pynvml is not None and not _started:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                _started = True
    return _started


def text(value: str | bytes) -> str:
    """Return a text of NVML, which some versions of the library return as bytes."""
    return value.decode() if isinstance(value, bytes) else value
