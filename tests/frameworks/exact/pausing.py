"""Of the programs beside it: a pause after some batches of an attempt, and a digest of what has been trained."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_left = int(os.environ.get("PAUSE_AFTER", "0"))
_hold = int(os.environ.get("HOLD_AFTER", "0")) if os.environ.get("SPRINGTIDE_ATTEMPT") == "1" else 0
"""Batches of the first attempt after which it waits for the pool to ask for a pause."""


def batch() -> None:
    """Count a batch, and ask this job to pause, or wait until it is asked to, if its number is due."""
    global _left, _hold
    _left -= 1
    _hold -= 1
    if "SPRINGTIDE_PAUSE_FILE" not in os.environ:
        return
    pause = Path(os.environ["SPRINGTIDE_PAUSE_FILE"])
    if _left == 0:
        pause.touch()
    if _hold == 0:
        print("waits for a pause", flush=True)
        while not pause.exists():
            time.sleep(0.01)


def show(arrays: Iterable[Any]) -> None:
    """Print a digest of arrays of NumPy."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    print("weights", digest.hexdigest())
