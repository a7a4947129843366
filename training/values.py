"""Conversion of frameworks' logged values into plain numbers, and of these into JSON."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Union


def written(number: float) -> Union[float, str]:
    """Return a number as JSON has it: one that is not finite as ``NaN``, ``Infinity`` or ``-Infinity``."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def plain(values: Mapping[str, Any]) -> Dict[str, float]:
    """Return the values that are numbers, or hold exactly one, as numbers."""
    found: Dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, (str, bytes, bool)):
            continue
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            continue
    return found
