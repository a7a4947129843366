"""Tuning of the process: garbage collector, memory of large buffers, and switches between threads."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

COMPLETE_INTERVAL: Final = 600.0
"""Minimum time between two collections of everything, in seconds."""
YOUNG_OBJECTS: Final = 10_000
"""Number of new objects that starts a collection of the youngest; Python's own is 700, from 3.13 on 2,000.

A collection looks at what requests and launches under way refer to: most of that is freed soon, without it.
"""
OLDEST: Final = 2
"""The generation that a full collection collects, with all younger ones."""


@contextmanager
def loading() -> Iterator[None]:
    """Collect no garbage during a large load in this context, and exclude its objects from later collections.

    A full collection looks at every object that lives: with 20,000 jobs that stops the process for a few tenths of
    a second each time, and finds nothing in them. Unreferenced objects are freed all the same.
    """
    with uncollected():
        try:
            yield
        finally:
            gc.freeze()


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage during short work in this context, and what it has left soon after."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def short_collections(clock: Callable[[], float]) -> Iterator[None]:
    """Collect young objects rarely in this context, and leave out of full collections what one has left before.

    What a full collection leaves lives long. Reference cycles that become garbage later are found by a collection
    of everything, which replaces a full one every `COMPLETE_INTERVAL` seconds of ``clock``.
    """
    complete_at = clock() + COMPLETE_INTERVAL
    thresholds = gc.get_threshold()

    def collected(phase: str, info: Mapping[str, Any]) -> None:
        nonlocal complete_at
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif clock() >= complete_at:
            complete_at = clock() + COMPLETE_INTERVAL
            gc.unfreeze()

    gc.callbacks.append(collected)
    gc.set_threshold(YOUNG_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(collected)


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


INTERVAL: Final = 0.0005
"""Time for which a thread runs Python code while another one waits, in seconds; a tenth of Python's default."""


@contextmanager
def short_interval() -> Iterator[None]:
    """Have threads in this context take turns every `INTERVAL`.

    The event loop gives the interpreter's lock away at each read and write of a socket. While the thread of the
    store encodes what it commits, the event loop gets the lock back only after the interval, so an answer that
    takes twenty reads and writes waits for twenty intervals.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
