"""How long threads of the service wait for each other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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
