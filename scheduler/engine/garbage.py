"""The garbage collector and a state of many objects that live long."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FULL_AFTER = 50
"""Number of collections of the middle generation between two full ones.

Under load a full one stops the process for a tenth of a second, every half minute instead of every few seconds.
"""


@contextmanager
def loading() -> Iterator[None]:
    """Collect no garbage while much is loaded in this context, and leave out of later collections what was loaded.

    A full collection looks at every object that lives: with 20,000 jobs that stops the process for a few tenths of
    a second each time, and finds nothing in them. What is no longer referred to is freed all the same. Later full
    collections come after `FULL_AFTER` smaller ones.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        youngest, middle, _ = gc.get_threshold()
        gc.set_threshold(youngest, middle, FULL_AFTER)
        if was_enabled:
            gc.enable()
