"""One process builds what several processes share; the others wait for it, and say so."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(path: Path, what: str) -> Iterator[None]:
    """Hold the lock ``path``, once no other process does; print that another build of ``what`` is waited for."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Waiting for another build of {what}", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
