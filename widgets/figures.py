"""Figures of Matplotlib in results: a notebook draws them as values, and not once more as open figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept_out_of_sight() -> Iterator[None]:
    """Close what opens in the block, where the notebook draws all open figures below a cell.

    A pickled figure that pyplot has made is opened by pyplot again when it is loaded. Closed figures are whole.
    """
    before = _open()
    try:
        yield
    finally:
        pyplot: Any = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and "inline" in pyplot.get_backend():
            for number in _open() - before:
                pyplot.close(number)


def _open() -> set[int]:
    """Return the numbers of pyplot's open figures."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    return set() if pyplot is None else set(pyplot.get_fignums())
