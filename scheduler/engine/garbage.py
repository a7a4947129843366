"""The garbage collector and a state of many objects that live long."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Collect no garbage while much is loaded in this context, and leave out of later collections what was loaded.

    A full collection looks at every object that lives: with 20,000 jobs that stops the process for a few tenths of
    a second each time, and finds nothing in them. What is no longer referred to is freed all the same.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
