"""Of the programs beside it: a pause after some batches of an attempt, and a digest of what has been trained."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_left = int(os.environ.get("PAUSE_AFTER", "0"))


def batch() -> None:
    """Count a batch, and ask this job to pause if its number is due."""
    global _left
    _left -= 1
    if _left == 0 and "SPRINGTIDE_PAUSE_FILE" in os.environ:
        Path(os.environ["SPRINGTIDE_PAUSE_FILE"]).touch()


def show(arrays: Iterable[Any]) -> None:
    """Print a digest of arrays of NumPy."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    print("weights", digest.hexdigest())
