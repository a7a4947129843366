"""Memory of large buffers, such as a snapshot of all jobs as JSON, and the C library that allocates it."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

THRESHOLD: Final = 1 << 20
"""Smallest buffer that is returned to the operating system as soon as it is freed, in bytes."""
_M_MMAP_THRESHOLD: Final = -3


def return_when_freed() -> bool:
    """Have buffers of `THRESHOLD` bytes and more returned to the system when they are freed, from now on.

    The GNU C library does so at first, but each large buffer that is freed raises its limit, up to 32 MiB: the
    next one of that size is taken from the heap and stays there (mallopt(3), ``M_MMAP_THRESHOLD``). A limit that
    is set stays. Returns whether the C library knows the option; elsewhere nothing changes.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_MMAP_THRESHOLD, THRESHOLD) == 1
